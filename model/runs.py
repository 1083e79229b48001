"""Where runs put what they found: a folder each, and ``latest``, which always speaks of the last. One of the edges."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path


def new_folder(runs: Path, seed: int) -> Path:
    """A folder in ``runs`` that no other run has; ``latest`` points to it from now on."""
    runs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}-", dir=runs))
    folder.chmod(0o755)
    link = runs / f".latest-{os.getpid()}"
    link.symlink_to(folder.name)
    latest = runs / "latest"
    if latest.is_dir() and not latest.is_symlink():
        latest.rename(runs / f"not-{folder.name}")  # whoever copied the folders made one of the link
    link.replace(latest)
    return folder


Identity = dict[str, str]
"""Which file was judged: ``path``, where it lay, and the ``sha256`` of what was in it; empty if there was none."""


def identity(path: str | Path) -> Identity:
    """The file as it lies there now."""
    file = Path(path)
    return {"path": str(path), "sha256": hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""}


def identities(paths: Mapping[str, str | Path]) -> dict[str, Identity]:
    """The same of each kind of module."""
    return {kind: identity(path) for kind, path in paths.items()}


def changes(judged: Mapping[str, Identity]) -> list[str]:
    """A line for each file that is no longer what it was when a run began: nobody knows which of both was judged."""
    return [f"{was['path']} was changed during the run" for was in judged.values() if identity(was["path"]) != was]
