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
    note = folder / f"rounds of {name.replace('/', '-')}"
    for number in itertools.count():
        yield number
        if time.time() >= until:
            return
        note.write_text(f"{number + 1}")


@contextlib.contextmanager
def progress(until: float, folder: Path) -> Iterator[None]:
    """Every ten seconds a plain line on stderr: time gone, time in all, rounds ended so far."""
    started, stop = time.time(), threading.Event()

    def report() -> None:
        while not stop.wait(EVERY_SECONDS):
            ended = sum(int(note.read_text() or 0) for note in folder.rglob("rounds of *"))
            gone, whole = time.time() - started, until - started
            sys.stderr.write(f"\nsoak: {gone:.0f} of {whole:.0f} s, {ended} rounds")
            sys.stderr.flush()

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
