"""What a storm of receivers has left in its file so far, against the publisher's log."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from model.port import connect


class Unsound(Exception):
    """The file holds what no run of events leaves, or cannot be read; one line says what."""


class Reading:
    """One connection, that keeps no lock, and all that the publisher may ever say."""

    def __init__(self, path: Path, log: Sequence[tuple[int, int]]) -> None:
        self._path, self._log = path, log
        self._totals = [0, *itertools.accumulate(delta for _, delta in log)]
        self._con: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._con is not None:
            self._con.close()

    def total(self, last: int) -> int:
        """The sum of all events up to this one."""
        return self._totals[last + 1]

    def last(self) -> int:
        """What the checkpoint says, in which cursor and total must agree."""
        rows = self._rows("SELECT last, total FROM checkpoint")
        if len(rows) != 1 or not -1 <= rows[0][0] < len(self._log):
            raise Unsound(f"checkpoint holds {rows}, must be one row of an event that was sent")
        last, total = rows[0]
        if total != self.total(last):
            raise Unsound(f"checkpoint: total is {total} at event {last}, must be {self.total(last)}")
        return int(last)

    def whole(self) -> int:
        """As ``last``, and the ledger must hold all events up to that one, and no other. Nobody may be writing."""
        last = self.last()
        ledger = self._rows("SELECT seq, delta FROM ledger ORDER BY seq")
        must = self._log[: last + 1]
        for row, event in zip(ledger, must, strict=False):
            if row != event:
                raise Unsound(f"ledger holds {row}, must hold {event}")
        if len(ledger) != len(must):
            raise Unsound(f"ledger has {len(ledger)} rows when the last event is {last}, must have {len(must)}")
        return last

    def _rows(self, sql: str) -> list[tuple[int, ...]]:
        try:
            if self._con is None:
                self._con = connect(self._path)
            return self._con.execute(sql).fetchall()
        except sqlite3.Error as error:
            raise Unsound(f"another connection cannot read: {error}") from error
