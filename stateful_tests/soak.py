"""Checks that go on for a given time, and the line that says how far they are."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EVERY_S: Final = 10.0


def rounds(seconds: float, folder: Path, name: str) -> Iterator[int]:
    """0, 1, 2, … until so many seconds have passed; at least one. Each ended round is noted."""
    until = time.monotonic() + seconds
    for number in itertools.count():
        yield number
        if time.monotonic() >= until:
            return
        note(folder, "rounds", name, number + 1)


def note(folder: Path, what: str, name: str, count: int) -> None:
    """So many rounds, or states, of this check are done; ``progress`` reads it in another process."""
    (folder / f"{what} of {name.replace('/', '-')}").write_text(f"{count}")


@contextlib.contextmanager
def progress(seconds: float, folder: Path) -> Iterator[None]:
    """Every ten seconds a plain line on stderr: time gone, time in all, rounds and states done so far."""
    started, stop = time.monotonic(), threading.Event()

    def report() -> None:
        while not stop.wait(EVERY_S):
            ended, states = (_noted(folder, what) for what in ("rounds", "states"))
            gone = time.monotonic() - started
            sys.stderr.write(f"\nsoak: {gone:.0f} of {seconds:.0f} s, {ended:,} rounds, {states:,} states")
            sys.stderr.flush()

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _noted(folder: Path, what: str) -> int:
    """What the files of that name add up to, wherever they lie: other folders come and go meanwhile."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sum(int(file.read_text() or 0) for file in files if file.name.startswith(f"{what} of "))
