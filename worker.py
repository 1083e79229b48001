"""A lease queue in one SQLite file: jobs are sent at least once, and only the latest lease can finish one.

All times are integer milliseconds on one time base that the caller provides. A claim leases a job for a
while: whoever still holds the lease may finish the job, and once it has run out the job can be claimed
again. What has no time or no attempts left becomes ``dead``, until an operator redrives it.

The functions that borrow a connection never close it, refuse one with an open transaction, and leave none
behind. A wrong value is a ValueError before any SQL is executed. Where others write or read at the same time,
each of them may raise ``sqlite3.OperationalError: database is locked`` after the connection's timeout, with
nothing changed. ``run_once`` and ``run_file`` are a claim and a finish: what comes after the claim leaves it as it is.

A call changes its connection and its file, and nothing else: it prints nothing, leaves no thread, process, descriptor
or other file behind, and alters nothing of the process it runs in. Nor does the import.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import sqlite3
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = [
    "BadAck",
    "Conflict",
    "Permanent",
    "Retryable",
    "claim",
    "enqueue",
    "finish",
    "open_queue",
    "redrive",
    "retry_delay",
    "run_file",
    "run_once",
]

_T = TypeVar("_T")
_Fault = Callable[[str], object]


class Conflict(Exception):
    """The id is already in the queue, with another quantity."""


class Retryable(Exception):
    """What a send raises when it is worth trying again later."""


class Permanent(Exception):
    """What a send raises when no later try can succeed."""


class BadAck(Exception):
    """A send returned something that is not True, so nobody knows what became of the job."""


# --- the schema -------------------------------------------------------------------------------------------------------

_TABLES: Final = {
    "jobs": """\
CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT)""",
    "redrives": """\
CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL)""",
}

# SQLite uses a partial or an expression index only where a query repeats these texts to the letter.
_OPEN: Final = "status IN ('pending', 'leased')"
# The instant from which a claim may take the job ...
_DUE: Final = "CASE status WHEN 'pending' THEN available_at ELSE lease_until END"
# ... and the one from which it must bury it instead: a running lease is never cut short.
_DIES: Final = """CASE
  WHEN status = 'pending' THEN CASE WHEN attempts >= max_attempts THEN 0 ELSE deadline END
  WHEN attempts >= max_attempts THEN lease_until ELSE max(deadline, lease_until) END"""
# A B-tree has one order, and "the lowest seq that is due" needs two. So the open jobs stand in buckets of 512
# neighbours, each in the order of its due times: one look tells whether a bucket holds a due job.
_BUCKET: Final = "seq >> 9"

_INDEXES: Final = (
    f"CREATE INDEX jobs_by_death ON jobs ({_DIES}) WHERE {_OPEN}",
    f"CREATE INDEX jobs_by_due ON jobs ({_BUCKET}, {_DUE}) WHERE {_OPEN}",
)

# --- the statements ---------------------------------------------------------------------------------------------------
# ruff: noqa: S608 - the pieces are the constants above; every value is bound

_INSERT: Final = """
INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
VALUES (:id, :qty, 'pending', 0, :max_attempts, 0, :now_ms, :now_ms + :ttl_ms)"""

_QUARANTINE: Final = f"""
UPDATE jobs SET status = 'dead', owner = NULL, lease_until = NULL,
  reason = CASE WHEN deadline <= :now_ms THEN 'deadline' ELSE 'exhausted' END
WHERE {_OPEN} AND {_DIES} <= :now_ms"""

# The walk goes from one bucket with open jobs to the next until one holds a due job, mostly the first; only there
# are rows read. Without its index it would be quadratic, so a file made by someone else is read from the start.
_FIRST_BUCKET: Final = f"SELECT min({_BUCKET}) AS n FROM jobs WHERE {_OPEN}"
_WITH_DUE_JOB: Final = f"CROSS JOIN jobs WHERE {_OPEN} AND {_BUCKET} = n AND {_DUE} <= :now_ms LIMIT 1"
_FIRST_DUE: Final = f"""
WITH RECURSIVE bucket(n) AS (
  {_FIRST_BUCKET}
  UNION ALL
  SELECT (SELECT {_BUCKET} FROM jobs WHERE {_OPEN} AND {_BUCKET} > n ORDER BY {_BUCKET} LIMIT 1)
  FROM bucket WHERE n IS NOT NULL)
SELECT seq, CAST(id AS BLOB), qty, token, attempts, deadline FROM jobs
WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >= coalesce(
  (SELECT n << 9 FROM ({_FIRST_BUCKET}) {_WITH_DUE_JOB}),
  CASE WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = 'jobs_by_due')
    THEN (SELECT n << 9 FROM bucket {_WITH_DUE_JOB})
    ELSE (SELECT min(seq) FROM jobs) END)
ORDER BY seq LIMIT 1"""

_LEASE: Final = """
UPDATE jobs SET status = 'leased', owner = :owner, token = :token, attempts = :attempt,
  lease_until = :lease_until, reason = NULL
WHERE seq = :seq"""

_HELD: Final = """
SELECT attempts >= max_attempts, deadline FROM jobs
WHERE id = :id AND status = 'leased' AND qty = :qty AND owner = :owner AND token = :token
  AND attempts = :attempt AND lease_until = :lease_until AND :now_ms < lease_until AND :now_ms < deadline"""

_SETTLE: Final = """
UPDATE jobs SET status = :status, reason = :reason, available_at = :available_at,
  owner = NULL, lease_until = NULL
WHERE id = :id"""

_AUDIT: Final = "INSERT INTO redrives (id, token, at_ms, note) VALUES (:id, :token, :now_ms, :note)"

_REVIVE: Final = """
UPDATE jobs SET status = 'pending', attempts = 0, available_at = :now_ms, deadline = :now_ms + :ttl_ms,
  owner = NULL, lease_until = NULL, reason = NULL
WHERE id = :id"""

# --- values -----------------------------------------------------------------------------------------------------------

_BOUNDS: Final = {
    "qty": (1, 1000),
    "ttl_ms": (1, 60_000),
    "max_attempts": (1, 16),
    "lease_ms": (1, 60_000),
    "delay_ms": (0, 60_000),
    "now_ms": (0, 10**15 - 60_000),
    "token": (1, 10**15),
    "attempt": (1, 16),
    "lease_until": (1, 10**15),
    "base_ms": (1, 60_000),
    "cap_ms": (1, 60_000),
}
# [A-Z] is ASCII and fullmatch allows no newline at the end; \w, isalnum() and `$` would let more through.
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OUTCOMES: Final = ("ok", "retry", "permanent")


def _exact_int(name: str, value: object) -> int:
    """``value`` if it is an int, and no bool, within the bounds of ``name``; else ValueError."""
    low, high = _BOUNDS[name]
    if type(value) is int and low <= value <= high:
        return value
    raise ValueError(f"{name} must be an int from {low} to {high}")


def _identifier(name: str, value: object) -> str:
    """``value`` if it is a str, no subclass, that is an identifier; else ValueError."""
    if type(value) is str and _IDENTIFIER.fullmatch(value):
        return value
    raise ValueError(f"{name} must be a str of 1 to 64 ASCII letters, digits, '_' or '-'")


def _exact_dict(name: str, value: object, *keys: str) -> dict[str, Any]:
    """``value`` if it is a dict, no subclass, of exactly ``keys``; else ValueError."""
    if type(value) is dict and all(type(key) is str for key in value) and value.keys() == set(keys):
        return value
    raise ValueError(f"{name} must be a dict of exactly {', '.join(keys)}")


def _ticket(value: object) -> dict[str, Any]:
    """``value`` if it has the form of what a claim returns; else ValueError."""
    ticket = _exact_dict("ticket", value, "id", "qty", "owner", "token", "attempt", "lease_until")
    for name in ("id", "owner"):
        _identifier(name, ticket[name])
    for name in ("qty", "token", "attempt", "lease_until"):
        _exact_int(name, ticket[name])
    return ticket


def _ratio(value: object) -> float:
    """``value`` if it is an int or a float, no subclass, from 0 to 1, which NaN is not; else ValueError."""
    if (type(value) is int or type(value) is float) and 0 <= value <= 1:
        return value
    raise ValueError("jitter must be a float or an int from 0 to 1")


def _file_name(path: object) -> str:
    """``path`` as a str; ValueError for what is neither a str nor an os.PathLike of one."""
    name = path.__fspath__() if isinstance(path, os.PathLike) else path
    if isinstance(name, str):
        return name
    raise ValueError("path must be a str or an os.PathLike of one")


# --- transactions -----------------------------------------------------------------------------------------------------


def _write(con: sqlite3.Connection, body: Callable[[], _T], fault: _Fault | None = None) -> _T:
    """The result of ``body``, run inside one BEGIN IMMEDIATE ... COMMIT; a true one reaches ``after-commit``.

    Whatever BEGIN, ``body`` or COMMIT raises arrives as the same object, with everything rolled back and no
    transaction open. ``sqlite3.ProgrammingError`` if ``con`` already has one, which stays as it was.
    """
    if con.in_transaction:
        raise sqlite3.ProgrammingError("the connection has an open transaction")
    before = con.total_changes
    # No context manager: an interrupt can arrive between its `yield` and the `with`, and leave all open. For
    # the same reason BEGIN is inside the `try`, and safely so: there is no other transaction to roll back.
    try:
        con.execute("BEGIN IMMEDIATE")
        result = body()
        # A COMMIT can fail under a reader even if there is nothing to commit; a ROLLBACK cannot.
        con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")
    except BaseException:
        # A full disk has rolled back already, and this error must not hide that one.
        with contextlib.suppress(Exception):
            con.execute("ROLLBACK")
        raise
    if result:
        _reach(fault, "after-commit")
    return result


def _reach(fault: _Fault | None, hook: str) -> None:
    if fault is not None:
        fault(hook)


def _row(con: sqlite3.Connection, sql: str, values: dict[str, Any] | None = None) -> tuple[Any, ...] | None:
    """The first row as a plain tuple, whatever the connection's row_factory; no cursor stays half-read."""
    with contextlib.closing(con.cursor()) as cursor:
        cursor.row_factory = None
        row: tuple[Any, ...] | None = cursor.execute(sql, values or {}).fetchone()
        return row


# --- the queue --------------------------------------------------------------------------------------------------------


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Milliseconds until the next try: ``floor(min(cap_ms, base_ms * 2**(attempt - 1)) * jitter)``.

    attempt 1-16, base_ms 1-60000, cap_ms base_ms-60000, jitter 0-1; anything else is a ValueError.
    """
    attempt = _exact_int("attempt", attempt)
    base_ms = _exact_int("base_ms", base_ms)
    cap_ms = _exact_int("cap_ms", cap_ms)
    if cap_ms < base_ms:
        raise ValueError("cap_ms must not be below base_ms")
    return math.floor(min(cap_ms, base_ms << (attempt - 1)) * _ratio(jitter))


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open the queue file at ``path`` and make its tables where they are missing; rows that are there stay.

    The connection has isolation_level=None, a timeout of 1 s, journal_mode=DELETE and synchronous=FULL.
    ValueError if ``path`` names no file. Whatever fails, as a change from WAL can, no connection stays open.
    """
    name = _file_name(path)
    if name in ("", ":memory:"):
        raise ValueError("a queue is a local file")
    # With "./" in front, an SQLite built with SQLITE_USE_URI does not take a file name for a URI.
    con = sqlite3.connect(os.path.join(".", name), timeout=1, isolation_level=None)  # noqa: PTH118 - Path drops "./"
    try:
        _initialise(con)
    except BaseException:
        _close_after_error(con)
        raise
    return con


def _initialise(con: sqlite3.Connection) -> None:
    if _row(con, "PRAGMA journal_mode = DELETE") != ("delete",):
        raise sqlite3.OperationalError("the journal_mode cannot be changed to DELETE")
    con.execute("PRAGMA synchronous = FULL")
    # Looking first keeps the opening of a busy queue from waiting for the write lock.
    if _missing_tables(con):
        con.execute("BEGIN IMMEDIATE")
        _create_tables(con, _missing_tables(con))
        con.execute("COMMIT")


def _missing_tables(con: sqlite3.Connection) -> list[str]:
    there = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [table for table in _TABLES if (table,) not in there]


def _create_tables(con: sqlite3.Connection, tables: list[str]) -> None:
    """Make ``tables``, and the indexes along with ``jobs`` only: what someone else made stays as it is."""
    for table in tables:
        con.execute(_TABLES[table])
    for index in _INDEXES if "jobs" in tables else ():
        con.execute(index)


def _close_after_error(con: sqlite3.Connection) -> None:
    """Close, which rolls back; an error while closing must not replace the first one."""
    with contextlib.suppress(Exception):
        con.close()


def enqueue(con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """True if ``event``, a dict of exactly id and qty, is a new job: pending now, dead ``ttl_ms`` later.

    False if the id is there already with the same quantity, in whatever state: the row stays as it is.
    Conflict if it is there with another quantity. qty 1-1000, ttl_ms 1-60000, max_attempts 1-16.
    """
    job = {
        "id": _identifier("id", _exact_dict("event", event, "id", "qty")["id"]),
        "qty": _exact_int("qty", event["qty"]),
        "now_ms": _exact_int("now_ms", now_ms),
        "ttl_ms": _exact_int("ttl_ms", ttl_ms),
        "max_attempts": _exact_int("max_attempts", max_attempts),
    }

    def insert() -> bool:
        known = _row(con, "SELECT qty FROM jobs WHERE id = :id", job)
        if known is None:
            con.execute(_INSERT, job)
        elif known != (job["qty"],):
            raise Conflict(f"{job['id']} is already in the queue with quantity {known[0]}, not {job['qty']}")
        return known is None

    return _write(con, insert)


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: _Fault | None = None
) -> dict[str, Any] | None:
    """Lease the first job, in the order of ``seq``, that is due at ``now_ms``; None if there is none.

    Before that, every open job past its deadline or out of attempts dies, unless its lease still runs; this
    is kept where the result is None too. The ticket is a dict of exactly id, qty, owner, token, attempt and
    lease_until, the earlier of ``now_ms + lease_ms`` and the job's deadline. lease_ms 1-60000.
    Hooks, on the way to a ticket only: ``after-claim`` inside the transaction, ``after-commit`` outside it.
    """
    owner = _identifier("owner", owner)
    now_ms = _exact_int("now_ms", now_ms)
    lease_ms = _exact_int("lease_ms", lease_ms)

    def lease() -> dict[str, Any] | None:
        con.execute(_QUARANTINE, {"now_ms": now_ms})
        row = _row(con, _FIRST_DUE, {"now_ms": now_ms})
        if row is None:
            return None
        seq, job_id, qty, token, attempts, deadline = row
        ticket = {
            # Read as bytes, for text_factory may make anything of a text; those of a UTF-16 file have zeros between.
            "id": job_id.replace(b"\0", b"").decode(),
            "qty": qty,
            "owner": owner,
            "token": token + 1,
            "attempt": attempts + 1,
            "lease_until": min(now_ms + lease_ms, deadline),
        }
        con.execute(_LEASE, {**ticket, "seq": seq})
        _reach(fault, "after-claim")
        return ticket

    return _write(con, lease, fault)


def finish(
    con: sqlite3.Connection,
    ticket: dict[str, Any],
    outcome: str,
    now_ms: int,
    delay_ms: int = 0,
    fault: _Fault | None = None,
) -> str | bool:
    """Settle the job that ``ticket`` still holds at ``now_ms`` and return its new status.

    ``ok`` makes it done, ``permanent`` dead. ``retry`` makes it pending, available ``delay_ms`` (0-60000)
    later, or dead if its attempts are used up or its deadline comes first. False, with nothing changed and
    no hook, if the row differs from the ticket in anything, or the lease or the deadline has passed.
    Hooks: ``after-finish`` inside the transaction, ``after-commit`` outside it.
    """
    held = {**_ticket(ticket), "now_ms": _exact_int("now_ms", now_ms)}
    if type(outcome) is not str or outcome not in _OUTCOMES:
        raise ValueError(f"outcome must be one of {', '.join(_OUTCOMES)}")
    delay_ms = _exact_int("delay_ms", delay_ms)

    def settle() -> str | bool:
        row = _row(con, _HELD, held)
        if row is None:
            return False
        exhausted, deadline = row
        status, reason = _verdict(outcome, exhausted=bool(exhausted), late=now_ms + delay_ms >= deadline)
        available_at = now_ms + delay_ms if status == "pending" else now_ms
        settled = {"id": held["id"], "status": status, "reason": reason, "available_at": available_at}
        con.execute(_SETTLE, settled)
        _reach(fault, "after-finish")
        return status

    return _write(con, settle, fault)


def _verdict(outcome: str, *, exhausted: bool, late: bool) -> tuple[str, str | None]:
    """Status and reason of a job after ``outcome``; a retry needs an attempt and time."""
    if outcome == "ok":
        return "done", None
    if outcome == "permanent":
        return "dead", "permanent"
    if exhausted:
        return "dead", "exhausted"
    return ("dead", "deadline") if late else ("pending", "retry")


def redrive(
    con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: _Fault | None = None
) -> bool:
    """True once a dead job has all its attempts again and ``ttl_ms`` (1-60000) to live, and an audit row.

    The token goes on counting, so that no old ticket can finish it. ValueError if there is no such dead job.
    Hooks: ``after-audit`` and ``after-redrive`` inside the transaction, ``after-commit`` outside it.
    """
    order = {
        "id": _identifier("job_id", job_id),
        "now_ms": _exact_int("now_ms", now_ms),
        "ttl_ms": _exact_int("ttl_ms", ttl_ms),
        "note": _identifier("note", note),
    }

    def revive() -> bool:
        dead = _row(con, "SELECT token FROM jobs WHERE id = :id AND status = 'dead'", order)
        if dead is None:
            raise ValueError(f"{job_id} is not a dead job")
        con.execute(_AUDIT, {**order, "token": dead[0]})
        _reach(fault, "after-audit")
        con.execute(_REVIVE, order)
        _reach(fault, "after-redrive")
        return True

    return _write(con, revive, fault)


# --- the worker -------------------------------------------------------------------------------------------------------


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """Claim one job, ``send`` it outside any transaction, finish it; a dict of id, token and status, or None.

    ``send`` gets a new dict of id and qty. Its True is ok; Retryable is a retry after ``retry_delay(attempt,
    100, 1000, jitter)``; Permanent is permanent. Any other return is a BadAck; that, or any other error,
    reaches the caller and leaves the job leased: nobody knows what became of it, so the lease decides. The
    status is ``stale`` where the ticket no longer held. ValueError, with the job still leased, if the clock's
    second reading is not a time or lies before the first.
    """
    _ratio(jitter)
    first_ms = clock()
    ticket = claim(con, owner, first_ms, lease_ms)
    if ticket is None:
        return None
    outcome = _deliver(send, ticket)
    second_ms = _exact_int("now_ms", clock())
    if second_ms < first_ms:
        raise ValueError(f"the clock went back from {first_ms} to {second_ms}")
    delay_ms = retry_delay(ticket["attempt"], 100, 1000, jitter) if outcome == "retry" else 0
    status = finish(con, ticket, outcome, second_ms, delay_ms)
    return {"id": ticket["id"], "token": ticket["token"], "status": status or "stale"}


def _deliver(send: Callable[[dict[str, Any]], object], ticket: dict[str, Any]) -> str:
    """The outcome of one send; BadAck, and whatever else it raises, is not an outcome."""
    try:
        ack = send({"id": ticket["id"], "qty": ticket["qty"]})
    except Retryable:
        return "retry"
    except Permanent:
        return "permanent"
    if ack is not True:
        raise BadAck(f"send must return True, not an object of type {type(ack).__name__}")
    return "ok"


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """``run_once`` on the queue file at ``path``, which is open for just that long.

    FileNotFoundError if there is no such regular file or it is empty; nothing is created. ValueError if ``path`` is
    neither a str nor an os.PathLike of one.
    """
    name = _file_name(path)
    if not os.path.isfile(name) or not os.path.getsize(name):  # noqa: PTH113, PTH202 - they take any name
        raise FileNotFoundError(errno.ENOENT, "no queue file", name)
    con = open_queue(name)
    try:
        result = run_once(con, owner, clock, send, jitter, lease_ms)
    except BaseException:
        _close_after_error(con)
        raise
    con.close()
    return result
