"""Folders for queue files: in memory where that is possible, named after the process that made them, swept later."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
_OURS: Final = re.compile(r"fencepost-([0-9]+)-\w+")


def make() -> Path:
    """A new folder of this process; before that, those of processes that no longer run are removed."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"fencepost-{os.getpid()}-", dir=fast()))


def fast() -> Path:
    """Where queue files are cheapest: no check needs the disk, and many files are made."""
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())


def sweep() -> None:
    """Remove what processes that were killed have left behind; a folder of another user stays."""
    for folder in fast().glob("fencepost-*"):
        name = _OURS.fullmatch(folder.name)
        if name and not _runs(int(name[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _runs(pid: int) -> bool:
    """Whether the process exists, be it somebody else's; a pid that was given out again counts as running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
