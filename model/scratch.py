"""Folders for queue files: in memory where that is possible, named after the process that made them, swept later."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
ROOM: Final = 2**29
"""Bytes that have to be free there: several times what a gate needs. A container often has 64 MB in all."""
_OURS: Final = re.compile(r"fencepost-([0-9]+)-([0-9]+)-\w+")


def make() -> Path:
    """A new folder of this process; before that, those of processes that no longer run are removed."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=prefix(os.getpid()), dir=fast()))


def prefix(pid: int) -> str:
    """How the folders of a process are called: by its pid, and by the namespace in which the pid is its own."""
    return f"fencepost-{pid}-{_namespace()}-"


def _namespace() -> int:
    """The same number for all who mean the same process by a pid: two containers may share a folder, and not that."""
    with contextlib.suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def fast() -> Path:
    """Where queue files are cheapest: no check needs the disk, and many files are made."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    return MEMORY if roomy else Path(tempfile.gettempdir())


def sweep() -> None:
    """Remove what processes that were killed have left behind; a folder of another user stays."""
    for folder in (*MEMORY.glob("fencepost-*"), *Path(tempfile.gettempdir()).glob("fencepost-*")):
        name = _OURS.fullmatch(folder.name)
        if name and int(name[2]) == _namespace() and not _runs(int(name[1])):
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
