"""A lease queue whose every change is one UPDATE or INSERT ... RETURNING, in the transaction of a context manager."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Hook = Callable[[str], object] | None

_NAME = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_END = 10**15

_SCRIPT = (
    """CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT)""",
    """CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL)""",
)

_BURY = """
UPDATE jobs SET status = 'dead', reason = iif(deadline <= ?1, 'deadline', 'exhausted'), owner = NULL, lease_until = NULL
WHERE (status = 'pending' OR (status = 'leased' AND lease_until <= ?1)) AND (deadline <= ?1 OR attempts >= max_attempts)
"""
_CLAIM = """
UPDATE jobs SET status = 'leased', attempts = attempts + 1, token = token + 1, owner = ?2,
  lease_until = min(?1 + ?3, deadline), reason = NULL
WHERE seq = (SELECT seq FROM jobs WHERE (status = 'pending' AND available_at <= ?1)
             OR (status = 'leased' AND lease_until <= ?1) ORDER BY seq LIMIT 1)
RETURNING id, qty, token, attempts, lease_until
"""
_FINISH = """
WITH held AS (
  SELECT seq AS n, CASE
      WHEN ?7 = 'ok' THEN 'done'
      WHEN ?7 = 'permanent' THEN 'dead permanent'
      WHEN attempts >= max_attempts THEN 'dead exhausted'
      WHEN ?8 + ?9 >= deadline THEN 'dead deadline'
      ELSE 'pending retry' END AS word
  FROM jobs
  WHERE (id, qty, owner, token, attempts, lease_until) = (?1, ?2, ?3, ?4, ?5, ?6)
    AND status = 'leased' AND lease_until > ?8 AND deadline > ?8)
UPDATE jobs SET owner = NULL, lease_until = NULL,
  status = iif(instr(word, ' '), substr(word, 1, instr(word, ' ') - 1), word),
  reason = iif(instr(word, ' '), substr(word, instr(word, ' ') + 1), NULL),
  available_at = ?8 + iif(word = 'pending retry', ?9, 0)
FROM held WHERE seq = n
RETURNING status
"""
_AUDIT = """
INSERT INTO redrives (id, token, at_ms, note)
SELECT id, token, ?2, ?4 FROM jobs WHERE id = ?1 AND status = 'dead' AND ?3
RETURNING token
"""
_REVIVE = """
UPDATE jobs SET status = 'pending', attempts = 0, available_at = ?2, deadline = ?2 + ?3,
  owner = NULL, lease_until = NULL, reason = NULL
WHERE id = ?1 AND ?4 IS NOT NULL
"""


class Conflict(Exception):
    """Another quantity."""


class Retryable(Exception):
    """Later."""


class Permanent(Exception):
    """Never."""


class BadAck(Exception):
    """Who knows."""


def _whole(low: int, high: int, *values: object) -> None:
    for value in values:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"{value!r} is not an int from {low} to {high}")


def _named(*values: object) -> None:
    for value in values:
        if type(value) is not str or not value.isascii() or not 1 <= len(value) <= 64 or set(value.encode()) - _NAME:
            raise ValueError(f"{value!r} is no identifier")


def _keyed(value: object, keys: tuple[str, ...]) -> None:
    if type(value) is not dict or len(value) != len(keys) or any(type(key) is not str for key in value):
        raise ValueError("no dict of these keys")
    if set(value) != set(keys):
        raise ValueError("a dict of other keys")


def _jitter(value: object) -> float:
    if type(value) is int and value in (0, 1):
        return float(value)
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    raise ValueError("jitter")


@contextlib.contextmanager
def _change(con: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """A cursor inside BEGIN IMMEDIATE ... COMMIT; any error rolls back."""
    if con.in_transaction:
        raise sqlite3.ProgrammingError("finish your own transaction first")
    cursor = con.cursor()
    cursor.row_factory = None
    try:
        cursor.execute("BEGIN IMMEDIATE")
        yield cursor
        cursor.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            con.rollback()
        raise
    finally:
        cursor.close()


def _one(cursor: sqlite3.Cursor, sql: str, *values: object) -> Any:  # noqa: ANN401 - a row of any columns
    rows = cursor.execute(sql, values).fetchall()
    return rows[0] if rows else None


def _tell(fault: Hook, *names: str) -> None:
    for name in names:
        if fault is not None:
            fault(name)


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Cap, then ratio, then floor."""
    _whole(1, 16, attempt)
    _whole(1, 60_000, base_ms, cap_ms)
    _whole(base_ms, 60_000, cap_ms)
    return int(min(cap_ms, base_ms * 2 ** (attempt - 1)) * _jitter(jitter) // 1)


def _place(path: object) -> str:
    place: object = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(place, str):
        raise ValueError("no path")  # noqa: TRY004 - the contract's error
    return place


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection to the file, which gets its tables."""
    place = _place(path)
    if place in ("", ":memory:"):
        raise ValueError("no file")
    with contextlib.ExitStack() as stack:
        con = sqlite3.connect(Path.cwd() / place, timeout=1, isolation_level=None)
        stack.callback(con.close)
        if con.execute("PRAGMA journal_mode = delete").fetchone() != ("delete",):
            raise sqlite3.OperationalError("no rollback journal")
        con.execute("PRAGMA synchronous = 2")
        if _lacking(con):
            con.execute("BEGIN IMMEDIATE")
            for sql in _lacking(con):
                con.execute(sql)
            con.execute("COMMIT")
        stack.pop_all()
        return con


def _lacking(con: sqlite3.Connection) -> list[str]:
    there = [name for (name,) in con.execute("SELECT tbl_name FROM sqlite_master WHERE type = 'table'").fetchall()]
    return [sql for sql in _SCRIPT if sql.split()[2] not in there]


def enqueue(con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """True for a new job, False for a known one, Conflict for another."""
    _keyed(event, ("id", "qty"))
    _named(event["id"])
    _whole(1, 1000, event["qty"])
    _whole(0, _END - 60_000, now_ms)
    _whole(1, 60_000, ttl_ms)
    _whole(1, 16, max_attempts)
    with _change(con) as cursor:
        known = _one(cursor, "SELECT qty = ?2 FROM jobs WHERE id = ?1", event["id"], event["qty"])
        if known == (0,):
            raise Conflict(event["id"])
        if known is None:
            cursor.execute(
                "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)"
                " VALUES (?, ?, 'pending', 0, ?, 0, ?, ?)",
                (event["id"], event["qty"], max_attempts, now_ms, now_ms + ttl_ms),
            )
    return known is None


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Hook = None
) -> dict[str, Any] | None:
    """Two statements: bury, lease."""
    _named(owner)
    _whole(0, _END - 60_000, now_ms)
    _whole(1, 60_000, lease_ms)
    with _change(con) as cursor:
        cursor.execute(_BURY, (now_ms,))
        row = _one(cursor, _CLAIM, now_ms, owner, lease_ms)
        if row is not None:
            _tell(fault, "after-claim")
    if row is None:
        return None
    _tell(fault, "after-commit")
    name, qty, token, attempt, until = row
    return {"id": name, "qty": qty, "owner": owner, "token": token, "attempt": attempt, "lease_until": until}


def finish(
    con: sqlite3.Connection,
    ticket: dict[str, Any],
    outcome: str,
    now_ms: int,
    delay_ms: int = 0,
    fault: Hook = None,
) -> str | bool:
    """One statement decides and writes."""
    keys = ("id", "qty", "owner", "token", "attempt", "lease_until")
    _keyed(ticket, keys)
    _named(ticket["id"], ticket["owner"])
    _whole(1, 1000, ticket["qty"])
    _whole(1, _END, ticket["token"], ticket["lease_until"])
    _whole(1, 16, ticket["attempt"])
    _whole(0, _END - 60_000, now_ms)
    _whole(0, 60_000, delay_ms)
    if type(outcome) is not str or outcome not in ("ok", "retry", "permanent"):
        raise ValueError("outcome")
    with _change(con) as cursor:
        row = _one(cursor, _FINISH, *(ticket[key] for key in keys), outcome, now_ms, delay_ms)
        if row is not None:
            _tell(fault, "after-finish")
    if row is None:
        return False
    _tell(fault, "after-commit")
    return str(row[0])


def redrive(con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: Hook = None) -> bool:
    """The audit finds the dead job, and says whether there is one."""
    _named(job_id, note)
    _whole(0, _END - 60_000, now_ms)
    _whole(1, 60_000, ttl_ms)
    order = (job_id, now_ms, ttl_ms, note)
    with _change(con) as cursor:
        if _one(cursor, _AUDIT, *order) is None:
            raise ValueError("not dead")
        _tell(fault, "after-audit")
        cursor.execute(_REVIVE, order)
        _tell(fault, "after-redrive")
    _tell(fault, "after-commit")
    return True


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """One job from claim to finish."""
    ratio = _jitter(jitter)
    start = clock()
    ticket = claim(con, owner, start, lease_ms)
    if not ticket:
        return None
    try:
        if send({key: ticket[key] for key in ("id", "qty")}) is not True:
            raise BadAck
        word, wait = "ok", 0
    except Retryable:
        word, wait = "retry", retry_delay(ticket["attempt"], 100, 1000, ratio)
    except Permanent:
        word, wait = "permanent", 0
    end = clock()
    _whole(start, _END - 60_000, end)
    status = finish(con, ticket, word, end, wait)
    return {"id": ticket["id"], "token": ticket["token"], "status": "stale" if status is False else status}


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """One job of the file."""
    file = Path(_place(path))
    if not (file.is_file() and file.stat().st_size > 0):
        raise FileNotFoundError(str(file))
    with contextlib.closing(open_queue(path)) as con:
        return run_once(con, owner, clock, send, jitter, lease_ms)
