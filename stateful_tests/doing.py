"""What each process of a gate is doing, in the run's folder, so that one that is killed or hangs keeps its case."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from model import steps
from stateful_tests.checks import kind_of, layer_of

DOING: Final = "doing"
"""The folder's name."""


@dataclass(frozen=True, slots=True)
class Doing:
    """A check, and its program so far; the last of ``lines`` is what had no answer yet.

    Behind ``#`` stands what is no operation of the program.
    """

    nodeid: str
    kind: str
    layer: str
    lines: tuple[str, ...]


class Writer:
    """In each process that makes checks: a file in ``folder`` that says what it does."""

    def __init__(self, folder: Path, process: str) -> None:
        self.path = folder / process

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if not self.path.exists():
            steps.begin(self.path)
        steps.check(item.nodeid, f"{kind_of(item)} {layer_of(item)}")

    def pytest_unconfigure(self) -> None:
        steps.end()

    def now(self) -> list[str]:
        """The program so far."""
        doing = _read(self.path)
        return list(doing.lines) if doing else []


def left(folder: Path) -> Iterator[Doing]:
    """What each process did last."""
    if folder.is_dir():
        yield from filter(None, map(_read, sorted(folder.iterdir())))


def forget(folder: Path) -> None:
    """It is no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> Doing | None:
    with contextlib.suppress(OSError, ValueError):
        nodeid, of, *lines = path.read_text(errors="replace").splitlines()
        kind, layer = of.removeprefix("# ").split()
        return Doing(nodeid.removeprefix("# "), kind, layer, tuple(lines))
    return None
