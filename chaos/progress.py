"""A line at times, for whoever waits: over the last one on a terminal, below it elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar

T = TypeVar("T")

TERMINAL_S: Final = 1.0
PLAIN_S: Final = 10.0


class Progress(Generic[T]):
    """Call it often: it writes a line to stderr every second on a terminal, every ten seconds elsewhere."""

    def __init__(self, line: Callable[[T], str]) -> None:
        self.line = line
        self.terminal = sys.stderr.isatty()
        self.next = time.monotonic() + self._pause

    @property
    def _pause(self) -> float:
        return TERMINAL_S if self.terminal else PLAIN_S

    def __call__(self, outcome: T) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self._pause
            line = self.line(outcome)
            sys.stderr.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
