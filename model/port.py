"""The port: where the model's words meet a module under test.

One of the edges of this package, the rest of which is pure. It loads a file that promises the contract, performs
operations on it and reads what it left in the database, always over a connection of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote

from model.contract import (
    LOCKED,
    PLANTED,
    REFUSED,
    Audit,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Job,
    Odd,
    Plain,
    Raise,
    Ran,
    Redrive,
    Reply,
    Return,
    RunOnce,
    State,
    Ticket,
)

Fault = Callable[[str], None]
Performed = Plain | RunOnce | Crash | Blocked


class Worker(Protocol):
    """What a lease queue must offer: eight functions and four errors."""

    @property
    def Conflict(self) -> type[Exception]: ...  # noqa: N802 - the contract names it
    @property
    def Retryable(self) -> type[Exception]: ...  # noqa: N802
    @property
    def Permanent(self) -> type[Exception]: ...  # noqa: N802
    @property
    def BadAck(self) -> type[Exception]: ...  # noqa: N802

    def retry_delay(self, attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int: ...
    def open_queue(self, path: str | os.PathLike[str]) -> sqlite3.Connection: ...
    def enqueue(
        self, con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3
    ) -> bool: ...
    def claim(
        self, con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Fault | None = None
    ) -> dict[str, Any] | None: ...
    def finish(
        self,
        con: sqlite3.Connection,
        ticket: dict[str, Any],
        outcome: str,
        now_ms: int,
        delay_ms: int = 0,
        fault: Fault | None = None,
    ) -> str | bool: ...
    def redrive(
        self,
        con: sqlite3.Connection,
        job_id: str,
        now_ms: int,
        ttl_ms: int,
        note: str,
        fault: Fault | None = None,
    ) -> bool: ...
    def run_once(
        self,
        con: sqlite3.Connection,
        owner: str,
        clock: Callable[[], int],
        send: Callable[[dict[str, Any]], object],
        jitter: float,
        lease_ms: int = 1000,
    ) -> dict[str, Any] | None: ...
    def run_file(
        self,
        path: str | os.PathLike[str],
        owner: str,
        clock: Callable[[], int],
        send: Callable[[dict[str, Any]], object],
        jitter: float,
        lease_ms: int = 1000,
    ) -> dict[str, Any] | None: ...


ERRORS = ("Conflict", "Retryable", "Permanent", "BadAck")
FUNCTIONS = ("retry_delay", "open_queue", "enqueue", "claim", "finish", "redrive", "run_once", "run_file")


class NotAWorker(Exception):
    """The file cannot be judged at all; the message is one line that says why."""


class Planted(Exception):
    """What a fault hook or a send raises when it is told to: compared by identity, never by type."""


PLANTS: dict[str, type[BaseException]] = {
    "Exception": Planted,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "GeneratorExit": GeneratorExit,
}


def load(path: str | os.PathLike[str]) -> Worker:
    """Import the file at ``path``, wherever it lies, under a name of its own; NotAWorker with one line if it cannot."""
    file = Path(path).resolve()
    if not file.is_file():
        raise NotAWorker(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")
    spec = importlib.util.spec_from_file_location(f"judged_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise NotAWorker(f"{file}: not a Python source file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise NotAWorker(f"{file}: does not import: {one_line(error)}") from error
    _require_names(file, module)
    return cast("Worker", module)


def _require_names(file: Path, module: object) -> None:
    missing = [name for name in FUNCTIONS if not callable(getattr(module, name, None))]
    missing += [name for name in ERRORS if not _is_error(getattr(module, name, None))]
    if missing:
        raise NotAWorker(f"{file}: not a worker module: lacks {', '.join(missing)}")


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def one_line(error: BaseException) -> str:
    """Type and text of an error, on one line, whatever the text."""
    where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(f"{type(error).__name__}: {text}{where}".split())


# --- performing an operation ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queue:
    """The module under test and the queue file it works on."""

    worker: Worker
    path: Path


def perform(queue: Queue, con: sqlite3.Connection, op: Performed, watch: Fault | None = None) -> Reply:
    """Run one operation on ``con`` and say what came of it; ``watch`` is called with the name of each hook reached.

    Every error of the module under test becomes a reply. An interrupt that was not planted passes through.
    """
    planted = PLANTS[op.error if isinstance(op, Crash) else "Exception"]("planted")
    try:
        with _surroundings(queue, con, op):
            return returned(_call(queue, con, op, _fault(op, watch, planted), planted))
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # noqa: BLE001 - each is a reply
        return raised(queue.worker, error, planted)


def _fault(op: Performed, watch: Fault | None, planted: BaseException) -> Fault | None:
    if watch is None and not isinstance(op, Crash):
        return None

    def fault(hook: str) -> None:
        if watch is not None:
            watch(hook)
        if isinstance(op, Crash) and hook == op.hook:
            raise planted

    return fault


def _call(queue: Queue, con: sqlite3.Connection, op: Performed, fault: Fault | None, planted: BaseException) -> object:
    worker = queue.worker
    match op:
        case Crash() | Blocked():
            return _call(queue, con, op.op, fault, planted)
        case Enqueue():
            return worker.enqueue(con, {"id": op.id, "qty": op.qty}, op.now_ms, op.ttl_ms, op.max_attempts)
        case Claim():
            return worker.claim(con, op.owner, op.now_ms, op.lease_ms, fault)
        case Finish():
            return worker.finish(con, ticket_dict(op.ticket), op.outcome, op.now_ms, op.delay_ms, fault)
        case Redrive():
            return worker.redrive(con, op.job_id, op.now_ms, op.ttl_ms, op.note, fault)
        case RunOnce():
            clock = iter((op.first_ms, op.second_ms)).__next__
            return worker.run_once(con, op.owner, clock, _sender(queue, op, planted), op.jitter, op.lease_ms)


def _sender(queue: Queue, op: RunOnce, planted: BaseException) -> Callable[[dict[str, Any]], object]:
    """A send that lets ``meanwhile`` happen on a second connection, spoils its dict, and then does what it was told."""
    worker = queue.worker

    def send(event: dict[str, Any]) -> object:
        if op.meanwhile:
            with contextlib.closing(worker.open_queue(queue.path)) as other:
                for step in op.meanwhile:
                    perform(queue, other, step)
        event.clear()
        match op.send:
            case "retryable":
                raise worker.Retryable("later")
            case "permanent":
                raise worker.Permanent("never")
            case "error":
                raise planted
            case "bad-ack":
                return 1
            case "ok":
                return True

    return send


@contextlib.contextmanager
def _surroundings(queue: Queue, con: sqlite3.Connection, op: Performed) -> Iterator[None]:
    """For a blocked operation: a reader that keeps its lock, and no waiting for it; otherwise nothing."""
    if not isinstance(op, Blocked):
        yield
        return
    with impatient(con), reading(queue.path):
        yield


def ticket_dict(ticket: Ticket) -> dict[str, Any]:
    """The ticket as the contract writes it: a new dict of exactly six keys."""
    return {name: getattr(ticket, name) for name in Ticket.__slots__}


def returned(raw: object) -> Return:
    """``raw`` in the model's words; types are exact, so that 1 is never taken for True."""
    if raw is None or type(raw) is bool or type(raw) is str:
        return Return(raw)
    for form in (Ticket, Ran):
        if _has_form(raw, form):
            return Return(form(**cast("dict[str, Any]", raw)))
    return Return(Odd(repr(raw)))


def _has_form(raw: object, form: type[Ticket | Ran]) -> bool:
    if type(raw) is not dict or set(raw) != set(form.__slots__):
        return False
    return all(type(raw[name]).__name__ == kind for name, kind in form.__annotations__.items())


def raised(worker: Worker, error: BaseException, planted: BaseException | None) -> Raise:
    """The error in the model's words; it loses its traceback, since a frame may hold a half-read cursor."""
    if isinstance(error, KeyboardInterrupt) and error is not planted:
        raise error
    error.__traceback__ = None
    if error is planted:
        return PLANTED
    for name in ERRORS:
        if isinstance(error, getattr(worker, name)):
            return Raise(name)
    if isinstance(error, ValueError):
        return REFUSED
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return LOCKED
    return Raise(one_line(error))


# --- looking from outside ---------------------------------------------------------------------------------------------


def connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection of the harness to an existing file: reads and writes, so that a hot journal is rolled back."""
    name = os.path.abspath(path)  # noqa: PTH100 - to resolve it costs more than to open it, and SQLite follows links
    return sqlite3.connect(f"file:{quote(name)}?mode=rw", uri=True, timeout=5, isolation_level=None)


_ALL = "SELECT {} FROM {} ORDER BY seq"


def observe(con: sqlite3.Connection) -> State:
    """Every row of both tables in one consistent read, in the order of ``seq``; no cursor stays half-read."""
    con.execute("BEGIN").close()
    try:
        jobs = con.execute(_ALL.format(", ".join(Job._fields), "jobs")).fetchall()
        audits = con.execute(_ALL.format(", ".join(Audit._fields), "redrives")).fetchall()
    finally:
        con.execute("ROLLBACK").close()
    return State(tuple(Job(*row) for row in jobs), tuple(Audit(*row) for row in audits))


def ranked(state: State) -> State:
    """Rows numbered by rank, as the model numbers them: that ``seq`` grows is promised, that it has no gaps is not."""
    return State(
        tuple(job._replace(seq=rank) for rank, job in enumerate(state.jobs, 1)),
        tuple(audit._replace(seq=rank) for rank, audit in enumerate(state.redrives, 1)),
    )


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Another connection holds its read lock for as long as the context lasts."""
    with contextlib.closing(connect(path)) as con:
        con.execute("BEGIN").close()
        con.execute("SELECT count(*) FROM jobs").fetchall()
        yield
        con.execute("ROLLBACK").close()


@contextlib.contextmanager
def impatient(con: sqlite3.Connection) -> Iterator[None]:
    """``con`` does not wait for a lock, and waits as before afterwards."""
    (waits_ms,) = con.execute("PRAGMA busy_timeout").fetchone()
    con.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        yield
    finally:
        con.execute(f"PRAGMA busy_timeout = {waits_ms}").fetchall()


if __name__ == "__main__":
    try:
        load(sys.argv[1])
    except NotAWorker as problem:
        sys.exit(str(problem))
    print(f"{sys.argv[1]} is a worker module")
