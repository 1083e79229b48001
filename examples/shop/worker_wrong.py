"""The shop's order queue: a call reads the rows it needs, decides in Python and writes them back, in one transaction.

The contract is Fencepost's, in the docstrings of its worker.py. Nothing here was copied from there.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Hook = Callable[[str], object]

LAST_MOMENT = 10**15
MINUTE = 60_000

TABLES = {
    "jobs": """CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
      status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
      attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
      available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
      owner TEXT, lease_until INTEGER, reason TEXT)""",
    "redrives": """CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL)""",
}


class Conflict(Exception):
    """The order is known, with another quantity."""


class Retryable(Exception):
    """Raised by a send: try again later."""


class Permanent(Exception):
    """Raised by a send: never try again."""


class BadAck(Exception):
    """The send returned something that is not True."""


class Job(NamedTuple):
    """One row of jobs."""

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

    def runs(self, now_ms: int) -> bool:
        """Whether somebody holds this job: a lease is over at lease_until itself."""
        return self.lease_until is not None and now_ms <= self.lease_until

    def dies_of(self, now_ms: int) -> str:
        """Why the job can be handed out no more, or nothing."""
        return "deadline" if now_ms >= self.deadline else "exhausted" if self.attempts >= self.max_attempts else ""


def whole(value: object, low: int, high: int) -> int:
    """An int within bounds, and no bool."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"not an int from {low} to {high}: {value!r}")
    return value


def moment(value: object) -> int:
    """A time in milliseconds."""
    return whole(value, 0, LAST_MOMENT - MINUTE)


def name(value: object) -> str:
    """An identifier."""
    if type(value) is not str or not re.fullmatch("[-A-Za-z0-9_]{1,64}", value):
        raise ValueError(f"not an identifier: {value!r}")
    return value


def fields(value: object, *keys: str) -> Row:
    """A dict of exactly these keys."""
    if type(value) is not dict or any(type(key) is not str for key in value) or sorted(value) != sorted(keys):
        raise ValueError(f"not a dict of {keys}: {value!r}")
    return value


def ratio(value: object) -> float:
    """From 0 to 1; NaN is not."""
    if type(value) not in {int, float} or not 0 <= value <= 1:  # type: ignore[operator]  # it is a number by then
        raise ValueError(f"not a ratio: {value!r}")
    return float(value)  # type: ignore[arg-type]  # as above


def file_name(value: object) -> str:
    """A str, or what a path-like makes of itself."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise ValueError(f"not a path: {value!r}")  # noqa: TRY004 - the contract's error
    return text


@contextmanager
def transaction(con: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """All of it, or nothing of it."""
    if con.in_transaction:
        raise sqlite3.ProgrammingError("a transaction is open")
    with closing(con.cursor()) as cursor:
        cursor.row_factory = None
        try:
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                cursor.execute("ROLLBACK")
            raise


def select(cursor: sqlite3.Cursor, condition: str, *values: object) -> list[Job]:
    """The jobs of a condition, in the order in which they came."""
    sql = f"SELECT {', '.join(Job._fields)} FROM jobs WHERE {condition} ORDER BY seq"  # noqa: S608 - constants of this file
    return [Job(*row) for row in cursor.execute(sql, values).fetchall()]


def update(cursor: sqlite3.Cursor, job: Job, **columns: object) -> None:
    """Write these columns back."""
    settings = ", ".join(f"{column} = ?" for column in columns)
    sql = f"UPDATE jobs SET {settings} WHERE seq = ?"  # noqa: S608 - keywords of this file
    cursor.execute(sql, (*columns.values(), job.seq))


def tell(fault: Hook | None, hook: str) -> None:
    """Reach a hook."""
    if fault is not None:
        fault(hook)


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """How long to wait before the next attempt."""
    doubled = whole(base_ms, 1, MINUTE) << (whole(attempt, 1, 16) - 1)
    return math.floor(min(whole(cap_ms, base_ms, MINUTE), doubled) * ratio(jitter))


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """The queue in this file."""
    text = file_name(path)
    if text in {"", ":memory:"}:
        raise ValueError("not a file")
    con = sqlite3.connect(Path.cwd() / text, timeout=1, isolation_level=None)
    try:
        if con.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
            raise sqlite3.OperationalError("the journal mode cannot be changed")  # noqa: TRY301 - closed below
        con.execute("PRAGMA synchronous = FULL")
        if missing(con):
            with transaction(con) as cursor:
                for table in missing(con):
                    cursor.execute(TABLES[table])
    except BaseException:
        con.close()
        raise
    return con


def missing(con: sqlite3.Connection) -> list[str]:
    """The tables that the file lacks."""
    there = {table for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    return [table for table in TABLES if table not in there]


def enqueue(con: sqlite3.Connection, event: Row, now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """Take an order in, once."""
    fields(event, "id", "qty")
    key, qty = name(event["id"]), whole(event["qty"], 1, 1000)
    moment(now_ms)
    deadline = now_ms + whole(ttl_ms, 1, MINUTE)
    whole(max_attempts, 1, 16)
    with transaction(con) as cursor:
        for known in select(cursor, "id = ?", key):
            if known.qty != qty:
                raise Conflict(f"{key}: {known.qty} is known, {qty} was asked for")
            return False
        cursor.execute(
            "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)"
            " VALUES (?, ?, 'pending', 0, ?, 0, ?, ?)",
            (key, qty, max_attempts, now_ms, deadline),
        )
    return True


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Hook | None = None
) -> Row | None:
    """Lease the first order that is due, and bury what has no time or no attempts left."""
    name(owner)
    moment(now_ms)
    whole(lease_ms, 1, MINUTE)
    first = None
    with transaction(con) as cursor:
        for job in select(cursor, "status IN ('pending', 'leased')"):
            if job.runs(now_ms):
                continue
            if reason := job.dies_of(now_ms):
                update(cursor, job, status="dead", reason=reason, owner=None, lease_until=None)
            elif first is None and (job.status == "leased" or job.available_at <= now_ms):
                first = job
        if first is None:
            return None
        ticket = {
            "id": first.id,
            "qty": first.qty,
            "owner": owner,
            "token": first.token + 1,
            "attempt": first.attempts + 1,
            "lease_until": min(now_ms + lease_ms, first.deadline),
        }
        update(
            cursor,
            first,
            status="leased",
            owner=owner,
            token=ticket["token"],
            attempts=ticket["attempt"],
            lease_until=ticket["lease_until"],
            reason=None,
        )
        tell(fault, "after-claim")
    tell(fault, "after-commit")
    return ticket


def finish(
    con: sqlite3.Connection, ticket: Row, outcome: str, now_ms: int, delay_ms: int = 0, fault: Hook | None = None
) -> str | bool:
    """Settle what the ticket still holds."""
    fields(ticket, "id", "qty", "owner", "token", "attempt", "lease_until")
    key = name(ticket["id"])
    held = (
        whole(ticket["qty"], 1, 1000),
        name(ticket["owner"]),
        whole(ticket["token"], 1, LAST_MOMENT),
        whole(ticket["attempt"], 1, 16),
        whole(ticket["lease_until"], 1, LAST_MOMENT),
    )
    moment(now_ms)
    again = now_ms + whole(delay_ms, 0, MINUTE)
    if type(outcome) is not str or outcome not in {"ok", "retry", "permanent"}:
        raise ValueError(f"not an outcome: {outcome!r}")
    with transaction(con) as cursor:
        for job in select(cursor, "id = ? AND status = 'leased'", key):
            same = (job.qty, job.owner, job.token, job.attempts, job.lease_until) == held
            if same and job.runs(now_ms) and now_ms < job.deadline:
                status, reason, available_at = settled(job, outcome, now_ms, again)
                values = {"status": status, "reason": reason, "available_at": available_at}
                update(cursor, job, **values, owner=None, lease_until=None)
                tell(fault, "after-finish")
                break
        else:
            return False
    tell(fault, "after-commit")
    return status


def settled(job: Job, outcome: str, now_ms: int, again: int) -> tuple[str, str | None, int]:
    """Status, reason and available_at after this outcome."""
    if outcome == "ok":
        return "done", None, now_ms
    if outcome == "permanent":
        return "dead", "permanent", now_ms
    if job.attempts >= job.max_attempts:
        return "dead", "exhausted", now_ms
    return ("dead", "deadline", now_ms) if again >= job.deadline else ("pending", "retry", again)


def redrive(
    con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: Hook | None = None
) -> bool:
    """Give a dead order another life; its token goes on counting."""
    name(job_id)
    name(note)
    moment(now_ms)
    deadline = now_ms + whole(ttl_ms, 1, MINUTE)
    with transaction(con) as cursor:
        for job in select(cursor, "id = ? AND status = 'dead'", job_id):
            audit = (job_id, job.token, now_ms, note)
            cursor.execute("INSERT INTO redrives (id, token, at_ms, note) VALUES (?, ?, ?, ?)", audit)
            tell(fault, "after-audit")
            update(cursor, job, status="pending", attempts=0, available_at=now_ms, deadline=deadline, reason=None)
            tell(fault, "after-redrive")
            break
        else:
            raise ValueError(f"not dead: {job_id}")
    tell(fault, "after-commit")
    return True


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[Row], object],
    jitter: float,
    lease_ms: int = 1000,
) -> Row | None:
    """Claim an order, send it, settle it."""
    ratio(jitter)
    began = clock()
    ticket = claim(con, owner, began, lease_ms)
    if ticket is None:
        return None
    delay_ms = 0
    try:
        ack = send({"id": ticket["id"], "qty": ticket["qty"]})
    except Retryable:
        outcome, delay_ms = "retry", retry_delay(ticket["attempt"], 100, 1000, jitter)
    except Permanent:
        outcome = "permanent"
    else:
        outcome = "ok"
        if ack is not True:
            raise BadAck(type(ack).__name__)
    ended = whole(clock(), began, LAST_MOMENT - MINUTE)
    status = finish(con, ticket, outcome, ended, delay_ms)
    return {"id": ticket["id"], "token": ticket["token"], "status": status or "stale"}


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[Row], object],
    jitter: float,
    lease_ms: int = 1000,
) -> Row | None:
    """The same on a queue file, which must be there."""
    text = file_name(path)
    if not Path(text).is_file() or not Path(text).stat().st_size:
        raise FileNotFoundError(text)
    with closing(open_queue(text)) as con:
        return run_once(con, owner, clock, send, jitter, lease_ms)
