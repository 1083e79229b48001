"""What a storm of receivers looked like, as data for the report: a lane for each process, and one for the publisher.

Items are as in ``chaos.timeline``: what was sent stands in the publisher's lane, what was committed in the receiver's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple


class Noted(NamedTuple):
    """What a session has to tell: a ``send`` or a ``commit``, and what was in it."""

    at: int
    kind: str
    text: str


class Chronicle:
    """Written while the storm goes on; times are those of ``time.monotonic_ns``."""

    def __init__(self) -> None:
        self.start = self.end = time.monotonic_ns()
        self.lanes: list[dict[str, Any]] = [{"group": "publisher", "name": "publisher", "pid": 0, "says": ""}]
        self.items: list[list[Any]] = []
        self.last_session = -1

    def born(self, number: int, pid: int, fate: str) -> None:
        """A receiver has begun its life."""
        self.lanes.append({"group": "receivers", "name": f"receiver-{number}", "pid": pid, "says": fate})

    def session(self, began: int, noted: Iterable[Noted], text: str, says: str) -> None:
        """A session of the last receiver has come to its end."""
        lane = len(self.lanes) - 1
        self.last_session = len(self.items)
        self._add(lane, "session", began, time.monotonic_ns(), text, says)
        for each in noted:
            self._add(0 if each.kind == "send" else lane, each.kind, each.at, each.at, each.text, "")

    def died(self, how: str) -> None:
        """The last receiver was killed."""
        now = time.monotonic_ns()
        self._add(len(self.lanes) - 1, "kill", now, now, "killed", how)

    def _add(self, lane: int, kind: str, begin: int, end: int, text: str, says: str) -> None:
        self.end = max(self.end, end)
        self.items.append([lane, kind, self._at(begin), self._at(end), "", None, text, says])

    def _at(self, ns: int) -> int:
        return (ns - self.start) // 1000

    def data(self, title: str, *, wrong: bool) -> dict[str, Any]:
        """The storm as data; what is wrong in it was seen in its last session."""
        bad = [self.last_session] if wrong and self.items else []
        return {
            "title": title,
            "lanes": self.lanes,
            "items": self.items,
            "clock": [],
            "end": self._at(self.end),
            "job": "",
            "wrong": bad,
        }
