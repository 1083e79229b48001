"""Checks that go on until a moment in time, and the line that says how far they are."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

EVERY_SECONDS = 10.0


def rounds(until: float, folder: Path, name: str) -> Iterator[int]:
    """0, 1, 2, … until ``until`` (seconds since the epoch) has passed; at least one. Each ended round is noted."""
    for number in itertools.count():
        yield number
        if time.time() >= until:
            return
        note(folder, "rounds", name, number + 1)


def note(folder: Path, what: str, name: str, count: int) -> None:
    """So many rounds, or states, of this check are done; ``progress`` reads it in another process."""
    (folder / f"{what} of {name.replace('/', '-')}").write_text(f"{count}")


@contextlib.contextmanager
def progress(until: float, folder: Path) -> Iterator[None]:
    """Every ten seconds a plain line on stderr: time gone, time in all, rounds and states done so far."""
    started, stop = time.time(), threading.Event()

    def report() -> None:
        while not stop.wait(EVERY_SECONDS):
            ended, states = (_noted(folder, what) for what in ("rounds", "states"))
            gone, whole = time.time() - started, until - started
            sys.stderr.write(f"\nsoak: {gone:.0f} of {whole:.0f} s, {ended:,} rounds, {states:,} states")
            sys.stderr.flush()

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _noted(folder: Path, what: str) -> int:
    return sum(int(file.read_text() or 0) for file in folder.rglob(f"{what} of *"))
