"""A lease queue of plain functions that reads rows in Python: one pass over the open jobs, and no index."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG
from typing import Any

Fault = Callable[[str], object]
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
LAST = 10**15
MINUTE = 60_000

JOBS = """CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT)"""
REDRIVES = """CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL)"""


class Conflict(Exception):
    """Known, with another quantity."""


class Retryable(Exception):
    """Try again."""


class Permanent(Exception):
    """Never try again."""


class BadAck(Exception):
    """Not True."""


def need(holds: object, what: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(what)


def is_int(value: object, low: int, high: int) -> bool:
    """An exact int of this range."""
    return type(value) is int and low <= value <= high


def is_name(value: object) -> bool:
    """An identifier."""
    return type(value) is str and 0 < len(value) <= 64 and LETTERS.issuperset(value)


def has_keys(value: object, *keys: str) -> bool:
    """An exact dict of these keys, each exactly a str."""
    return type(value) is dict and {type(key) for key in value} == {str} and sorted(value) == sorted(keys)


def check_ratio(value: object) -> None:
    """ValueError unless it is a jitter."""
    if isinstance(value, int | float) and type(value) in {int, float}:
        need(0 <= value <= 1, "jitter is not from 0 to 1")
    else:
        need(None, "jitter is no number")


def fetch(con: sqlite3.Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """All rows as plain tuples."""
    cursor = con.cursor()
    cursor.row_factory = None
    try:
        return cursor.execute(sql, values).fetchall()
    finally:
        cursor.close()


def begin(con: sqlite3.Connection) -> None:
    """Take the write lock."""
    if con.in_transaction:
        raise RuntimeError("a transaction is open")
    con.execute("BEGIN IMMEDIATE")


def undo(con: sqlite3.Connection) -> None:
    """Roll back whatever is open; never raises."""
    try:
        if con.in_transaction:
            con.execute("ROLLBACK")
    except sqlite3.Error:
        pass


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Milliseconds until the next try."""
    need(is_int(attempt, 1, 16), "attempt")
    need(is_int(base_ms, 1, MINUTE), "base_ms")
    need(is_int(cap_ms, base_ms, MINUTE), "cap_ms")
    check_ratio(jitter)
    delay = base_ms
    for _ in range(attempt - 1):
        delay = min(cap_ms, 2 * delay)
    return int(delay * jitter)


def name_of(path: object) -> str:
    """The path as a str."""
    given: object = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if isinstance(given, str):
        return given
    raise ValueError("no path")


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open or make a queue file."""
    given = name_of(path)
    need(given not in {"", ":memory:"}, "no file is named")
    con = sqlite3.connect(given, timeout=1.0, isolation_level=None, uri=False)
    try:
        if fetch(con, "PRAGMA journal_mode = DELETE")[0][0] != "delete":
            raise sqlite3.OperationalError("the file stays in WAL")  # noqa: TRY301 - it is closed below
        con.execute("PRAGMA synchronous = FULL")
        if len(tables(con)) < 2:
            begin(con)
            there = tables(con)
            if "jobs" not in there:
                con.execute(JOBS)
            if "redrives" not in there:
                con.execute(REDRIVES)
            con.execute("COMMIT")
    except BaseException:
        con.close()
        raise
    return con


def tables(con: sqlite3.Connection) -> set[str]:
    """Those of the two tables that are there."""
    rows = fetch(con, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('jobs', 'redrives')")
    return {name for (name,) in rows}


def enqueue(con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """Put a job in, once."""
    need(has_keys(event, "id", "qty"), "event")
    name, qty = event["id"], event["qty"]
    need(is_name(name) and is_int(qty, 1, 1000), "event")
    need(is_int(now_ms, 0, LAST - MINUTE), "now_ms")
    need(is_int(ttl_ms, 1, MINUTE), "ttl_ms")
    need(is_int(max_attempts, 1, 16), "max_attempts")
    begin(con)
    try:
        added = con.execute(
            "INSERT INTO jobs VALUES (NULL, ?, ?, 'pending', 0, ?, 0, ?, ?, NULL, NULL, NULL)"
            " ON CONFLICT (id) DO NOTHING",
            (name, qty, max_attempts, now_ms, now_ms + ttl_ms),
        ).rowcount
        ((there,),) = fetch(con, "SELECT qty FROM jobs WHERE id = ?", name)
        if there != qty:
            raise Conflict(name)  # noqa: TRY301 - the rollback is below
        con.execute("COMMIT")
    except BaseException:
        undo(con)
        raise
    return added == 1


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Fault | None = None
) -> dict[str, Any] | None:
    """Bury what is doomed, then lease the first due job."""
    need(is_name(owner), "owner")
    need(is_int(now_ms, 0, LAST - MINUTE), "now_ms")
    need(is_int(lease_ms, 1, MINUTE), "lease_ms")
    begin(con)
    try:
        first = None
        free = fetch(
            con,
            "SELECT seq, id, qty, attempts, max_attempts, token, deadline,"
            " CASE WHEN status = 'pending' THEN available_at ELSE lease_until END FROM jobs"
            " WHERE status = 'pending' OR (status = 'leased' AND lease_until <= ?) ORDER BY seq",
            now_ms,
        )
        for row in free:
            seq, _, _, attempts, most, _, deadline, due = row
            if deadline <= now_ms or attempts >= most:
                reason = "deadline" if deadline <= now_ms else "exhausted"
                con.execute(
                    "UPDATE jobs SET status = 'dead', reason = ?, owner = NULL, lease_until = NULL WHERE seq = ?",
                    (reason, seq),
                )
            elif first is None and due <= now_ms:
                first = row
        ticket = _lease(con, first, owner, now_ms, lease_ms) if first else None
        if ticket and fault is not None:
            fault("after-claim")
        con.execute("COMMIT")
    except BaseException:
        undo(con)
        raise
    if ticket and fault is not None:
        fault("after-commit")
    return ticket


def _lease(con: sqlite3.Connection, row: tuple[Any, ...], owner: str, now_ms: int, lease_ms: int) -> dict[str, Any]:
    seq, name, qty, attempts, _, token, deadline, _ = row
    until = min(deadline, now_ms + lease_ms)
    con.execute(
        "UPDATE jobs SET status = 'leased', attempts = ?, token = ?, owner = ?, lease_until = ?, reason = NULL"
        " WHERE seq = ?",
        (attempts + 1, token + 1, owner, until, seq),
    )
    keys = ("id", "qty", "owner", "token", "attempt", "lease_until")
    return dict(zip(keys, (name, qty, owner, token + 1, attempts + 1, until), strict=True))


def finish(  # noqa: C901 - one page of cases
    con: sqlite3.Connection,
    ticket: dict[str, Any],
    outcome: str,
    now_ms: int,
    delay_ms: int = 0,
    fault: Fault | None = None,
) -> str | bool:
    """Settle a job that is still held."""
    need(has_keys(ticket, "id", "qty", "owner", "token", "attempt", "lease_until"), "ticket")
    need(is_name(ticket["id"]) and is_name(ticket["owner"]), "ticket")
    for key, most in (("qty", 1000), ("token", LAST), ("attempt", 16), ("lease_until", LAST)):
        need(is_int(ticket[key], 1, most), key)
    need(type(outcome) is str and outcome in {"ok", "retry", "permanent"}, "outcome")
    need(is_int(now_ms, 0, LAST - MINUTE), "now_ms")
    need(is_int(delay_ms, 0, MINUTE), "delay_ms")
    begin(con)
    try:
        status: str | bool = False
        rows = fetch(
            con,
            "SELECT seq, qty, owner, token, attempts, lease_until, deadline, max_attempts FROM jobs"
            " WHERE status = 'leased' AND id = ?",
            ticket["id"],
        )
        for seq, *held, deadline, most in rows:
            shown = [ticket["qty"], ticket["owner"], ticket["token"], ticket["attempt"], ticket["lease_until"]]
            if held != shown or now_ms >= min(ticket["lease_until"], deadline):
                continue
            reason: str | None = None
            available_at = now_ms
            if outcome == "ok":
                status = "done"
            elif outcome == "permanent":
                status, reason = "dead", "permanent"
            elif ticket["attempt"] >= most:
                status, reason = "dead", "exhausted"
            elif deadline <= now_ms + delay_ms:
                status, reason = "dead", "deadline"
            else:
                status, reason, available_at = "pending", "retry", now_ms + delay_ms
            con.execute(
                "UPDATE jobs SET (status, reason, available_at, owner, lease_until) = (?, ?, ?, NULL, NULL)"
                " WHERE seq = ?",
                (status, reason, available_at, seq),
            )
            if fault is not None:
                fault("after-finish")
        con.execute("COMMIT")
    except BaseException:
        undo(con)
        raise
    if status and fault is not None:
        fault("after-commit")
    return status


def redrive(
    con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: Fault | None = None
) -> bool:
    """Give a dead job a new life, and write down who asked."""
    need(is_name(job_id) and is_name(note), "job_id or note")
    need(is_int(now_ms, 0, LAST - MINUTE) and is_int(ttl_ms, 1, MINUTE), "now_ms or ttl_ms")
    begin(con)
    try:
        rows = fetch(con, "SELECT seq, token FROM jobs WHERE id = ? AND status = 'dead'", job_id)
        need(rows, "no such dead job")
        ((seq, token),) = rows
        con.execute("INSERT INTO redrives VALUES (NULL, ?, ?, ?, ?)", (job_id, token, now_ms, note))
        if fault is not None:
            fault("after-audit")
        con.execute(
            "UPDATE jobs SET status = 'pending', attempts = 0, available_at = ?, deadline = ?, owner = NULL,"
            " lease_until = NULL, reason = NULL WHERE seq = ?",
            (now_ms, now_ms + ttl_ms, seq),
        )
        if fault is not None:
            fault("after-redrive")
        con.execute("COMMIT")
    except BaseException:
        undo(con)
        raise
    if fault is not None:
        fault("after-commit")
    return True


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """Claim, send, finish."""
    check_ratio(jitter)
    before = clock()
    ticket = claim(con, owner, before, lease_ms)
    if ticket is None:
        return None
    event = {"id": ticket["id"], "qty": ticket["qty"]}
    outcome, delay = "ok", 0
    try:
        answer = send(event)
    except Retryable:
        outcome, delay = "retry", retry_delay(ticket["attempt"], 100, 1000, jitter)
    except Permanent:
        outcome = "permanent"
    else:
        if answer is not True:
            raise BadAck(type(answer).__name__)
    after = clock()
    need(is_int(after, 0, LAST - MINUTE) and after >= before, "the second time")
    return {
        "id": ticket["id"],
        "token": ticket["token"],
        "status": finish(con, ticket, outcome, after, delay) or "stale",
    }


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """``run_once`` on a queue file that is there."""
    there = Path(name_of(path)).stat()
    if not S_ISREG(there.st_mode) or there.st_size == 0:
        raise FileNotFoundError(path)
    con = open_queue(path)
    try:
        return run_once(con, owner, clock, send, jitter, lease_ms)
    finally:
        con.close()
