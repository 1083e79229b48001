"""A process dies while it opens a queue file: both tables are there, or what was there before, and nothing between."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from chaos import stages
from chaos.child import Order, Word
from chaos.deaths import opening
from chaos.experiments import Void
from chaos.forks import Server
from chaos.killer import Unanswered, hear, kill
from chaos.trial import damage, victim
from model import lease
from model.contract import SCHEMA, Audit, Claim, Enqueue, Job, Reopen, State
from model.counterexample import Violation, differences, show, source
from model.port import connect, one_line, perform
from model.queue import Queue, observe, ranked

Tables = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """A process that opens a file in which somebody has executed ``there``, which makes ``rows``, dies in ``stage``."""

    scene: str
    there: tuple[str, ...]
    rows: State
    stage: str
    kept: bool

    @property
    def name(self) -> str:
        return f"{self.scene}, killed in {self.stage}"

    def outcomes(self) -> tuple[Tables, Tables]:
        """The tables that the kill must leave if the change is lost, and if it is kept; Void if it shows nothing."""
        lost = tuple(sorted(sql for sql in self.there if sql in SCHEMA.values()))
        kept = tuple(sorted(SCHEMA.values()))
        if lost == kept:
            raise Void(f"{self.name}: lost and kept are the same tables")
        return lost, kept

    def order(self, module: Path, path: Path) -> Order:
        """What to tell the process that dies."""
        return Order(str(module), str(path), repr(Reopen()), self.stage)


def check_opening(
    experiment: Opening, queue: Queue, module: Path, did: Counter[str], server: Server | None = None
) -> None:
    """Kill one process; the tables are those before or all of them, as the stage says, and the queue lives on.

    Void, Unanswered, or a Violation with the program that leads there.
    """
    lost, kept = experiment.outcomes()
    want = kept if experiment.kept else lost
    _prepare(experiment, queue.path)
    with victim(experiment, queue, module, server) as child:
        _judge(experiment, hear(child))
        kill(child)
    did["processes killed"] += 1
    did["kept" if experiment.kept else "lost"] += 1
    if server is not None:
        did["forked"] += 1
    if (got := tables(queue.path)) != want:
        _fail(experiment, "after SIGKILL in", f"the tables are {_names(got)}, must be {_names(want)}")
    if problem := damage(queue.path):
        _fail(experiment, "after SIGKILL in", problem)
    _live_on(experiment, queue, experiment.rows)


def tables(path: Path) -> Tables | str:
    """The source of each table, sorted; why there is none to be read otherwise. A missing file has no tables."""
    if not path.exists():
        return ()
    try:
        with contextlib.closing(connect(path)) as con:
            con.execute("PRAGMA busy_timeout = 0").close()
            names = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY sql"
            return tuple(sql for (sql,) in con.execute(names).fetchall())
    except sqlite3.Error as error:
        return f"unreadable: {error}"


def _names(got: Tables | str) -> str:
    if isinstance(got, str):
        return got
    return ", ".join(sql.split()[2] for sql in got) or "none"


def _prepare(experiment: Opening, path: Path) -> None:
    if experiment.there:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as con:
            for sql in experiment.there:
                con.execute(sql).close()


def _judge(experiment: Opening, word: Word) -> None:
    match word.what:
        case "unloaded":
            raise Unanswered(word.text)
        case "unopened":
            _fail(experiment, "on the way to", f"worker.open_queue raises {word.text}, in another process")
        case "ended":
            _fail(experiment, "on the way to", f"worker.open_queue {word.text}, never came to {experiment.stage}")


def _live_on(experiment: Opening, queue: Queue, state: State) -> None:
    """The next opener gets a whole queue: what was in it is still there, and a new job can be claimed."""
    when = "two operations after SIGKILL in"
    try:
        con = queue.worker.open_queue(queue.path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        _fail(experiment, "after SIGKILL in", f"worker.open_queue raises {one_line(error)}")
    with contextlib.closing(con):
        for op in (Enqueue("next", 1, 0, 50_000), Claim("next", 0)):
            state, want = lease.step(state, op)
            if (got := perform(queue, con, op)) != want:
                _fail(experiment, when, f"{source(op)}: {show(got)}, must be {show(want)}")
        if difference := differences(ranked(observe(con)), state):
            _fail(experiment, when, difference)


def _fail(experiment: Opening, when: str, what: str) -> NoReturn:
    where = f"{when} {experiment.stage} ({experiment.scene})"
    raise Violation(f"{where}: {what}", opening(experiment.there, experiment.stage))


_COMMON: Final = {
    stages.BEFORE_BEGIN: False,
    stages.BEFORE_CREATE: False,
    stages.BEFORE_COMMIT: False,
    stages.COMMIT_DONE: True,
}
_JOB: Final = (
    "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)"
    " VALUES ('a', 5, 'pending', 0, 3, 0, 0, 50000)"
)
_AUDIT: Final = "INSERT INTO redrives (id, token, at_ms, note) VALUES ('a', 1, 0, 'again')"
_JOB_ROW: Final = State((Job(1, "a", 5, "pending", 0, 3, 0, 0, 50_000, None, None, None),))
_AUDIT_ROW: Final = State((), (Audit(1, "a", 1, 0, "again"),))

OPENINGS: Final = (
    *(Opening("opening of a new file", (), State(), *row) for row in _COMMON.items()),
    Opening("opening of a new file", (), State(), stages.BEFORE_SECOND_CREATE, kept=False),
    *(Opening("opening of a file without redrives", (SCHEMA["jobs"], _JOB), _JOB_ROW, *row) for row in _COMMON.items()),
    *(
        Opening("opening of a file without jobs", (SCHEMA["redrives"], _AUDIT), _AUDIT_ROW, *row)
        for row in _COMMON.items()
    ),
)
