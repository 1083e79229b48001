"""A process dies while it opens a file: all that was missing is there or none of it, nothing between."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from chaos import stages
from chaos.child import Order, Word
from chaos.deaths import dying_opening
from chaos.files import Files, Left, look
from chaos.forks import Server
from chaos.killer import Unanswered, hear, kill
from chaos.matrix import Void
from chaos.prepared import Differs, opened
from chaos.sequels import sequel
from chaos.shelf import Shelf
from chaos.trial import victim
from model import contract, events
from model.contract import CLIENT, WORKER, Audit, Job, Kind, Reopen
from model.counterexample import Rows, Violation, differences, reply_differs, source
from model.port import Subject, connect, perform


@dataclass(frozen=True, slots=True)
class Opening:
    """A process that opens a file dies in ``stage``.

    The file is new, or the module has opened it before and somebody has executed ``spoilt`` since. ``rows`` are in it
    once it is whole.
    """

    kind: Kind
    scene: str
    spoilt: tuple[str, ...]
    rows: Rows
    stage: str
    kept: bool

    @property
    def name(self) -> str:
        return f"{self.scene}, killed in {self.stage}"

    def order(self, module: Path, path: Path) -> Order:
        """What to tell the process that dies."""
        return Order(self.kind.name, str(module), str(path), repr(Reopen()), self.stage)


def check_opening(
    experiment: Opening,
    subject: Subject[Any, Any],
    module: Path,
    did: Counter[str],
    server: Server | None = None,
    shelf: Shelf | None = None,
) -> None:
    """Kill one process; it leaves what it found or a whole file, as the stage says, and the file lives on.

    Void, Unanswered, or a Violation with the program that leads there.
    """
    trial = _Trial(experiment, subject)
    shelf = shelf or Shelf()
    found = trial.prepare_once(shelf)
    with victim(experiment, subject, module, server) as child:
        trial.judge(hear(child))
        kill(child)
    did["processes killed"] += 1
    did["kept" if experiment.kept else "lost"] += 1
    if server is not None:
        did["forked"] += 1
    files = experiment.kept, Files.of(subject.path)
    if files in shelf.sound:
        return
    left = look(subject, subject.path)
    if experiment.kept:
        trial.live_on(left)
    else:
        trial.compare("after SIGKILL in", left.differs(found))
        trial.live_on()
    shelf.sound.append(files)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One experiment on one file."""

    experiment: Opening
    subject: Subject[Any, Any]

    def prepare_once(self, shelf: Shelf) -> Left:
        """``prepare``, or a copy of what that left for the same scene."""
        scene, path = self.experiment.scene, self.subject.path
        if shelf.copy(scene, path):
            return cast("Left", shelf.found)
        left = self.prepare()
        shelf.keep(scene, path, left)
        return left

    def prepare(self) -> Left:
        """What is there before the opening; Void if nothing is missing."""
        path = self.subject.path
        if self.experiment.spoilt:
            with self._open("before SIGKILL in"):
                pass
            with contextlib.closing(connect(path)) as con:
                for sql in self.experiment.spoilt:
                    con.execute(sql).close()
        left = look(self.subject, path)
        if not self._lacks(left):
            raise Void(f"{self.experiment.name}: nothing is missing")
        return left

    def judge(self, word: Word) -> None:
        """The process must stand at its stage."""
        match word.what:
            case "unloaded":
                raise Unanswered(word.text)
            case "unopened":
                self._fail("on the way to", f"{self._opener} raises {word.text}, in another process")
            case "ended":
                self._fail("on the way to", f"{self._opener} {word.text}, never came to {self.experiment.stage}")

    def live_on(self, left: Left | None = None) -> None:
        """The next opener makes the file whole, and finds it so if it was ``left`` whole; then it is used."""
        subject, state = self.subject, self.experiment.rows
        with self._open("after SIGKILL in") as con:
            whole = look(subject, subject.path)
            if left is not None:
                self.compare("after SIGKILL in", left.differs(whole))
            self.compare("one opening after SIGKILL in", self._lacks(whole))
            for op in sequel(subject.kind, state, Reopen()):
                state, want = subject.model.step(state, op)
                if difference := reply_differs(op, perform(subject, con, op), want):
                    self._fail("two operations after SIGKILL in", f"{source(op)} {difference}")
        self.compare("two operations after SIGKILL in", differences(look(subject, subject.path).rows, state))

    def compare(self, when: str, difference: str) -> None:
        if difference:
            self._fail(when, difference)

    def _lacks(self, left: Left) -> str:
        """What keeps the file from being whole; empty if nothing."""
        missing = [table for table in self.subject.tables if f"TABLE {table}" not in left.schema]
        lacks = f"the schema lacks {', '.join(missing)}" if missing else ""
        return left.problem or lacks or differences(left.rows, self.experiment.rows)

    @property
    def _opener(self) -> str:
        return f"{self.subject.kind.name}.{self.subject.kind.opener}"

    @contextlib.contextmanager
    def _open(self, when: str) -> Iterator[sqlite3.Connection]:
        try:
            with opened(self.subject) as con:
                yield con
        except Differs as problem:
            self._fail(when, str(problem))

    def _fail(self, when: str, what: str) -> NoReturn:
        one = self.experiment
        raise Violation(f"{when} {one.stage} ({one.scene}): {what}", dying_opening(one.kind, one.spoilt, one.stage))


_TABLES: Final = {
    stages.BEFORE_BEGIN: False,
    stages.BEFORE_CREATE: False,
    stages.BEFORE_COMMIT: False,
    stages.COMMIT_DONE: True,
}
"""The stages of an opening that makes a table."""
_BOTH: Final = {stages.BEFORE_SECOND_CREATE: False, **_TABLES}
_ROW: Final = {
    stages.BEFORE_BEGIN: False,
    stages.AFTER_WRITE: False,
    stages.BEFORE_COMMIT: False,
    stages.COMMIT_DONE: True,
}

_JOB: Final = (
    "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)"
    " VALUES ('a', 5, 'pending', 0, 3, 0, 0, 50000)"
)
_AUDIT: Final = "INSERT INTO redrives (id, token, at_ms, note) VALUES ('a', 1, 0, 'again')"
_NO_ROWS: Final = contract.State()
_JOB_ROW: Final = contract.State((Job(1, "a", 5, "pending", 0, 3, 0, 0, 50_000, None, None, None),))
_AUDIT_ROW: Final = contract.State((), (Audit(1, "a", 1, 0, "again"),))
_START: Final = events.State()


def _openings(
    kind: Kind, scene: str, rows: Rows, steps: dict[str, bool], spoilt: tuple[str, ...] = ()
) -> Iterator[Opening]:
    return (Opening(kind, f"opening of a {scene}", spoilt, rows, *step) for step in steps.items())


OPENINGS: Final = (
    *_openings(WORKER, "new file", _NO_ROWS, _BOTH),
    *_openings(WORKER, "file without redrives", _JOB_ROW, _TABLES, ("DROP TABLE redrives", _JOB)),
    *_openings(WORKER, "file without jobs", _AUDIT_ROW, _TABLES, ("DROP TABLE jobs", _AUDIT)),
)
STORE_OPENINGS: Final = (
    *_openings(CLIENT, "new store", _START, _BOTH),
    *_openings(CLIENT, "store without ledger", _START, _TABLES, ("DROP TABLE ledger",)),
    *_openings(CLIENT, "store without checkpoint", _START, _TABLES, ("DROP TABLE checkpoint",)),
    *_openings(CLIENT, "store without the row of checkpoint", _START, _ROW, ("DELETE FROM checkpoint",)),
)
