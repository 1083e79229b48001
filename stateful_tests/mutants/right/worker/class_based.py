"""A lease queue as a class over one connection, whose bound methods the module's functions call; rows are objects."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

HookFn = Callable[[str], object] | None


class Conflict(Exception):
    """The same id, something else."""


class Retryable(Exception):
    """A send that may work later."""


class Permanent(Exception):
    """A send that never works."""


class BadAck(Exception):
    """A send that says neither."""


class Rule:
    """A form that values must have."""

    def __call__(self, value: Any) -> Any:  # noqa: ANN401 - what is not known is what it is for
        if not self.fits(value):
            raise ValueError(f"{value!r:.80} does not fit {type(self).__name__}")
        return value

    def fits(self, value: Any) -> bool:  # noqa: ANN401 - see above
        raise NotImplementedError


class Range(Rule):
    """Exact ints from the one to the other."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def fits(self, value: object) -> bool:
        return value.__class__ is int and type(value) is int and self.low <= value <= self.high


class Name(Rule):
    """Identifiers."""

    def fits(self, value: object) -> bool:
        if type(value) is not str or not 1 <= len(value) <= 64:
            return False
        return all(("0" <= c <= "9") or ("A" <= c <= "Z") or ("a" <= c <= "z") or c in "-_" for c in value)


class Ratio(Rule):
    """Numbers from 0 to 1."""

    def fits(self, value: object) -> bool:
        return (type(value) is float and 0.0 <= value <= 1.0) or (type(value) is int and 0 <= value <= 1)


class Word(Rule):
    """One of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def fits(self, value: object) -> bool:
        return type(value) is str and value in self.words


class Shape(Rule):
    """Dicts of these keys, whose values have these forms."""

    def __init__(self, **rules: Rule) -> None:
        self.rules = rules

    def fits(self, value: object) -> bool:
        if type(value) is not dict or {str} != set(map(type, value)) or {*value} != {*self.rules}:
            return False
        return all(rule.fits(value[key]) for key, rule in self.rules.items())


NOW, SHORT, NAME, RATIO = Range(0, 999_999_999_940_000), Range(1, 60_000), Name(), Ratio()
FOREVER = Range(1, 1_000_000_000_000_000)
EVENT = Shape(id=NAME, qty=Range(1, 1000))
TICKET = Shape(id=NAME, qty=Range(1, 1000), owner=NAME, token=FOREVER, attempt=Range(1, 16), lease_until=FOREVER)


@dataclasses.dataclass
class Job:
    """One row of jobs, read by ``Queue.find``."""

    seq: int
    id: str
    qty: int
    status: str
    attempts: int
    max_attempts: int
    token: int
    available_at: int
    deadline: int
    owner: str | None
    lease_until: int | None

    def held_by(self, ticket: Mapping[str, Any], now_ms: int) -> bool:
        mine = (self.status, self.qty, self.owner, self.token, self.attempts, self.lease_until)
        return (
            mine
            == (
                "leased",
                ticket["qty"],
                ticket["owner"],
                ticket["token"],
                ticket["attempt"],
                ticket["lease_until"],
            )
            and now_ms < ticket["lease_until"]
            and now_ms < self.deadline
        )

    def after(self, outcome: str, now_ms: int, delay_ms: int) -> dict[str, Any]:
        """The columns that a finish writes."""
        end = {"owner": None, "lease_until": None, "available_at": now_ms}
        match outcome:
            case "ok":
                return {**end, "status": "done", "reason": None}
            case "permanent":
                return {**end, "status": "dead", "reason": "permanent"}
        if self.attempts >= self.max_attempts:
            return {**end, "status": "dead", "reason": "exhausted"}
        if now_ms + delay_ms >= self.deadline:
            return {**end, "status": "dead", "reason": "deadline"}
        return {**end, "status": "pending", "reason": "retry", "available_at": now_ms + delay_ms}


class Queue:
    """The operations; as a context manager, one transaction."""

    FREE: ClassVar = "(status = 'pending' OR status = 'leased' AND lease_until <= :now)"

    def __init__(self, con: sqlite3.Connection, fault: HookFn = None) -> None:
        self.con, self.fault = con, fault
        self.changed = False

    def __enter__(self) -> Self:
        if self.con.in_transaction:
            raise sqlite3.OperationalError("cannot start a transaction within a transaction")
        self.con.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self.con.execute("COMMIT")
            except BaseException:
                self.abandon()
                raise
            if self.changed:
                self.reach("after-commit")
        else:
            self.abandon()

    def abandon(self) -> None:
        if self.con.in_transaction:
            try:
                self.con.rollback()
            except sqlite3.Error:
                return

    def reach(self, hook: str) -> None:
        self.changed = True
        if self.fault is not None:
            self.fault(hook)

    def find(self, where: str, **values: object) -> Job | None:
        """The first row that fits, by seq."""
        chosen = ", ".join(f.name for f in dataclasses.fields(Job))
        cursor = self.con.cursor()
        cursor.row_factory = None
        rows = cursor.execute(f"SELECT {chosen} FROM jobs WHERE {where} ORDER BY seq LIMIT 1", values).fetchall()  # noqa: S608 - constants
        cursor.close()
        return Job(*rows[0]) if rows else None

    def set(self, job: Job, **columns: object) -> None:
        words = ", ".join(f"{name} = :{name}" for name in columns)
        self.con.execute(f"UPDATE jobs SET {words} WHERE seq = :seq", {**columns, "seq": job.seq})  # noqa: S608 - names

    def enqueue(self, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int) -> bool:
        if job := self.find("id = :id", id=event["id"]):
            if job.qty == event["qty"]:
                return False
            raise Conflict(event["id"], job.qty, event["qty"])
        self.con.execute(
            "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)"
            " SELECT :id, :qty, 'pending', 0, :most, 0, :now, :end",
            {**event, "most": max_attempts, "now": now_ms, "end": now_ms + ttl_ms},
        )
        return True

    def claim(self, owner: str, now_ms: int, lease_ms: int) -> dict[str, Any] | None:
        for doomed, reason in (("deadline <= :now", "deadline"), ("attempts >= max_attempts", "exhausted")):
            self.con.execute(
                "UPDATE jobs SET status = 'dead', owner = NULL, lease_until = NULL, reason = :reason"  # noqa: S608 - constants
                f" WHERE {self.FREE} AND {doomed}",
                {"reason": reason, "now": now_ms},
            )
        job = self.find(f"{self.FREE} AND (status = 'leased' OR available_at <= :now)", now=now_ms)
        if job is None:
            return None
        token, attempts, until = job.token + 1, job.attempts + 1, min(job.deadline, now_ms + lease_ms)
        self.set(job, status="leased", owner=owner, token=token, attempts=attempts, lease_until=until, reason=None)
        self.reach("after-claim")
        ticket = {"id": job.id, "qty": job.qty, "owner": owner, "token": token}
        return ticket | {"attempt": attempts, "lease_until": until}

    def finish(self, ticket: dict[str, Any], outcome: str, now_ms: int, delay_ms: int) -> str | bool:
        job = self.find("id = :id", id=ticket["id"])
        if job is None or not job.held_by(ticket, now_ms):
            return False
        columns = job.after(outcome, now_ms, delay_ms)
        self.set(job, **columns)
        self.reach("after-finish")
        return str(columns["status"])

    def redrive(self, job_id: str, now_ms: int, ttl_ms: int, note: str) -> bool:
        job = self.find("id = :id", id=job_id)
        if job is None or job.status != "dead":
            raise ValueError(f"{job_id} is not dead")
        audit = (job_id, job.token, now_ms, note)
        self.con.execute("INSERT INTO redrives (id, token, at_ms, note) VALUES (?, ?, ?, ?)", audit)
        self.reach("after-audit")
        new = {"available_at": now_ms, "deadline": now_ms + ttl_ms, "owner": None, "lease_until": None}
        self.set(job, status="pending", attempts=0, reason=None, **new)
        self.reach("after-redrive")
        return True


class QueueFile:
    """A file with the two tables in it."""

    TABLES: ClassVar = {
        "jobs": "seq INTEGER PRIMARY KEY AUTOINCREMENT,\n  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,\n"
        "  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),\n"
        "  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,\n"
        "  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,\n  owner TEXT, lease_until INTEGER, reason TEXT",
        "redrives": "seq INTEGER PRIMARY KEY AUTOINCREMENT,\n"
        "  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL",
    }

    def __init__(self, path: object) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ValueError(f"{path!r} is no path")  # noqa: TRY004 - the contract's error
        self.name = os.fspath(path)
        if type(self.name) is bytes or self.name in ("", ":memory:"):
            raise ValueError(f"{path!r} names no file")

    def open(self) -> sqlite3.Connection:
        con = sqlite3.connect(os.path.abspath(self.name), 1.0, isolation_level=None)  # noqa: PTH100 - any name will do
        try:
            self.set_up(con)
        except BaseException:
            con.close()
            raise
        return con

    def set_up(self, con: sqlite3.Connection) -> None:
        ((mode,),) = con.execute("PRAGMA journal_mode=DELETE").fetchall()
        if mode.lower() != "delete":
            raise sqlite3.OperationalError(f"journal_mode stays {mode}")
        con.execute("PRAGMA synchronous=FULL").close()
        if self.missing(con):
            with Queue(con):
                for table in self.missing(con):
                    con.execute(f"CREATE TABLE {table} ({self.TABLES[table]})")

    def missing(self, con: sqlite3.Connection) -> set[str]:
        return self.TABLES.keys() - {row[1] for row in con.execute("PRAGMA table_list").fetchall()}


class Worker:
    """One run: a claim, a send, a finish."""

    def __init__(self, con: sqlite3.Connection, owner: str, clock: Callable[[], int], jitter: float) -> None:
        self.con, self.owner, self.clock, self.jitter = con, owner, clock, RATIO(jitter)

    def run(self, send: Callable[[dict[str, Any]], object], lease_ms: int) -> dict[str, Any] | None:
        first = self.clock()
        ticket = claim(self.con, self.owner, first, lease_ms)
        if ticket is None:
            return None
        outcome, delay = self.deliver(send, ticket)
        status = finish(self.con, ticket, outcome, Range(first, NOW.high)(self.clock()), delay)
        return {"id": ticket["id"], "token": ticket["token"], "status": status or "stale"}

    def deliver(self, send: Callable[[dict[str, Any]], object], ticket: dict[str, Any]) -> tuple[str, int]:
        try:
            answer = send({"id": ticket["id"], "qty": ticket["qty"]})
        except Retryable:
            return "retry", retry_delay(ticket["attempt"], 100, 1000, self.jitter)
        except Permanent:
            return "permanent", 0
        if answer is True:
            return "ok", 0
        raise BadAck(f"not True but a {type(answer)}")


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Milliseconds to wait after this attempt."""
    Range(1, 16)(attempt), SHORT(base_ms), Range(base_ms, 60_000)(cap_ms), RATIO(jitter)
    return int(min(cap_ms, base_ms * pow(2, attempt - 1)) * jitter)


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection to the queue file at ``path``."""
    return QueueFile(path).open()


def enqueue(con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """Whether the job is new."""
    EVENT(event), NOW(now_ms), SHORT(ttl_ms), Range(1, 16)(max_attempts)
    with Queue(con) as queue:
        return queue.enqueue(event, now_ms, ttl_ms, max_attempts)


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: HookFn = None
) -> dict[str, Any] | None:
    """A ticket, or None."""
    NAME(owner), NOW(now_ms), SHORT(lease_ms)
    with Queue(con, fault) as queue:
        return queue.claim(owner, now_ms, lease_ms)


def finish(
    con: sqlite3.Connection,
    ticket: dict[str, Any],
    outcome: str,
    now_ms: int,
    delay_ms: int = 0,
    fault: HookFn = None,
) -> str | bool:
    """The new status, or False."""
    TICKET(ticket), Word("ok", "retry", "permanent")(outcome), NOW(now_ms), Range(0, 60_000)(delay_ms)
    with Queue(con, fault) as queue:
        return queue.finish(ticket, outcome, now_ms, delay_ms)


def redrive(con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: HookFn = None) -> bool:
    """True."""
    NAME(job_id), NOW(now_ms), SHORT(ttl_ms), NAME(note)
    with Queue(con, fault) as queue:
        return queue.redrive(job_id, now_ms, ttl_ms, note)


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """What became of one job."""
    return Worker(con, owner, clock, jitter).run(send, lease_ms)


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """What became of one job in this file."""
    file = QueueFile(path)
    if not os.path.isfile(file.name) or os.stat(file.name).st_size < 1:  # noqa: PTH113, PTH116 - any name will do
        raise FileNotFoundError(2, "no such queue", file.name)
    con = file.open()
    try:
        return run_once(con, owner, clock, send, jitter, lease_ms)
    finally:
        con.close()
