"""Where a process stands still besides its fault hooks: at a statement of its SQL, at a clock reading, in its send.

Nothing of the module under test is replaced. SQLite says which statement comes next, and the profiler of Python gets
a word in between any two calls, so that the process can be stopped right after one as well.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from model.port import first_word

BEFORE_BEGIN: Final = "before-begin"
BEFORE_SECOND_BEGIN: Final = "before-second-begin"
BEFORE_CREATE: Final = "before-create"
BEFORE_SECOND_CREATE: Final = "before-second-create"
AFTER_WRITE: Final = "after-write"
"""The first row has changed, in a transaction that is still open."""
BEFORE_COMMIT: Final = "before-commit"
COMMIT_DONE: Final = "commit-done"
"""The COMMIT has just returned: nothing else has been called since."""

FIRST_CLOCK: Final = "first-clock"
SEND: Final = "send"
ANSWERED: Final = "answered"
"""The send is about to return, or to raise: the answer is known, and nobody has heard it."""
SECOND_CLOCK: Final = "second-clock"


@dataclass(slots=True)
class Stand:
    """Calls ``stop``, which does not return, as soon as the stage ``name`` is reached.

    ``called`` gathers the hooks, clock readings and sends on the way there, in order.
    """

    name: str
    stop: Callable[[tuple[str, ...]], object]
    called: list[str] = field(default_factory=list)

    def passes(self, stage: str) -> None:
        """A stage that every run of the operation is known by."""
        self.called.append(stage)
        if stage == self.name:
            sys.setprofile(None)
            self.stop(tuple(self.called))

    def meets(self, stage: str) -> None:
        """A stage that is of interest only to the one who wants to stop there."""
        if stage == self.name:
            self.passes(stage)


@dataclass(slots=True)
class Watch:
    """Follows one transaction of ``con``: the first one in which anything is changed.

    ``changes`` are the rows that ``con`` had changed before.
    """

    con: sqlite3.Connection
    stand: Stand
    changes: int
    creates: int = 0
    committing: bool = False

    def start(self) -> None:
        self.con.set_trace_callback(self._statement)

    def _statement(self, sql: str) -> None:
        match first_word(sql):
            case "BEGIN":
                self.stand.meets(BEFORE_BEGIN)
            case "CREATE":
                self.creates += 1
                self.stand.meets(BEFORE_CREATE if self.creates == 1 else BEFORE_SECOND_CREATE)
            case "COMMIT" | "END" if self.creates or self.changes != self.con.total_changes:
                self.stand.meets(BEFORE_COMMIT)
                self.committing = True

    def between_calls(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # a closed connection is in no transaction
            if self.con.in_transaction:
                if self.changes != self.con.total_changes:
                    self.stand.meets(AFTER_WRITE)
            elif self.committing:
                self.stand.meets(COMMIT_DONE)


def watch(con: sqlite3.Connection, stand: Stand) -> None:
    """From now on, stand still at a statement of ``con``."""
    watching = Watch(con, stand, con.total_changes)
    watching.start()
    if stand.name in (AFTER_WRITE, COMMIT_DONE):
        sys.setprofile(lambda *_: watching.between_calls())


def watch_opening(connections: list[sqlite3.Connection], stand: Stand) -> None:
    """The same for connections that are yet to be opened; an audit hook has to put them into ``connections``.

    A connection cannot be told to call back before its ``__init__`` is over: the next call is the first chance, and
    is always early enough, as the first statement needs a call.
    """
    known = len(connections)
    watches: list[Watch] = []

    def between_calls(*_: object) -> None:
        for con in connections[known + len(watches) :]:
            watches.append(Watch(con, stand, 0))
            watches[-1].start()
        for watching in watches:
            watching.between_calls()

    sys.setprofile(between_calls)


def watch_answer(send: Callable[..., object], stand: Stand) -> None:
    """Stand still when ``send``, a Python function, returns or raises."""

    def between_calls(frame: object, event: str, _: object) -> None:
        if event == "return" and getattr(frame, "f_code", None) is getattr(send, "__code__", ()):
            stand.meets(ANSWERED)

    if stand.name == ANSWERED:
        sys.setprofile(between_calls)
