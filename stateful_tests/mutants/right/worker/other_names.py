"""A lease queue of closures and tables: one description of each call, one loop that judges it, two plain indexes."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

Signal = Callable[[str], object]
Deed = Callable[[sqlite3.Cursor, Signal], Any]

IDENTIFIER = re.compile(r"\A[0-9A-Z_a-z-]{1,64}\Z", re.ASCII)
DDL = {
    "jobs": """CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL, owner TEXT, lease_until INTEGER, reason TEXT)""",
    "redrives": """CREATE TABLE redrives (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, token INTEGER NOT NULL,
  at_ms INTEGER NOT NULL, note TEXT NOT NULL)""",
}
EXTRAS = (
    "CREATE INDEX waiting ON jobs (status, available_at, seq)",
    "CREATE INDEX running ON jobs (lease_until, seq) WHERE lease_until IS NOT NULL",
)
SPANS = {
    "attempt": (1, 16),
    "budget": (1, 16),
    "delay": (0, 60_000),
    "duration": (1, 60_000),
    "end": (1, 10**15),
    "quantity": (1, 1000),
    "time": (0, 10**15 - 60_000),
}
TICKET = {
    "id": "name",
    "qty": "quantity",
    "owner": "name",
    "token": "end",
    "attempt": "attempt",
    "lease_until": "end",
}


class Conflict(Exception):
    """A known id with a new quantity."""


class Retryable(Exception):
    """Not now."""


class Permanent(Exception):
    """Not ever."""


class BadAck(Exception):
    """Not True."""


class Row(NamedTuple):
    """What a claim and a finish must know of a job."""

    seq: int
    tries: int
    budget: int
    token: int
    deadline: int


# --- judging values ---------------------------------------------------------------------------------------------------


def judge(**given: tuple[str, object]) -> None:
    """ValueError at the first value that is not of the sort beside it."""
    for label, (sort, value) in given.items():
        if not is_a(sort, value):
            raise ValueError(f"{label}: {value!r} is not a {sort}")


def is_a(sort: str, value: object) -> bool:
    """Whether the value is exactly of this sort."""
    if sort == "name":
        return type(value) is str and IDENTIFIER.match(value) is not None
    if sort == "outcome":
        return type(value) is str and value in {"ok", "permanent", "retry"}
    if sort == "ratio":
        return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]  # a number by now
    if type(value) is not int:
        return False
    low, high = SPANS[sort]
    return low <= value <= high


def judge_dict(value: object, sorts: dict[str, str]) -> None:
    """ValueError unless it is a dict of exactly these keys, of these sorts."""
    if type(value) is not dict or [key for key in value if type(key) is not str] or value.keys() != sorts.keys():
        raise ValueError(f"not a dict of {sorts.keys()}")
    judge(**{key: (sort, value[key]) for key, sort in sorts.items()})


# --- transactions -----------------------------------------------------------------------------------------------------


def transact(con: sqlite3.Connection, deed: Deed, fault: Signal | None = None) -> Any:  # noqa: ANN401 - the deed's
    """Do the deed between BEGIN IMMEDIATE and COMMIT; if it signalled, signal after-commit."""
    signalled: list[str] = []

    def signal(name: str) -> None:
        signalled.append(name)
        if fault is not None:
            fault(name)

    if con.in_transaction:
        raise RuntimeError("the connection is in use")
    con.execute("BEGIN IMMEDIATE").close()
    cursor, finished = con.cursor(), False
    cursor.row_factory = None
    try:
        result = deed(cursor, signal)
        cursor.close()
        con.commit()
        finished = True
    finally:
        if not finished:
            try:
                cursor.close()
                con.rollback()
            except sqlite3.Error:
                finished = False
    if signalled:
        signal("after-commit")
    return result


# --- the file ---------------------------------------------------------------------------------------------------------


def open_queue(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open the file; what is missing in it is made."""
    place = where(path)
    con = sqlite3.connect(place, isolation_level=None, timeout=1.0)
    try:
        con.execute("PRAGMA synchronous = FULL").close()
        mode = con.execute("PRAGMA journal_mode = DELETE").fetchall()
        if mode != [("delete",)]:
            raise sqlite3.NotSupportedError(f"the journal is {mode}")  # noqa: TRY301 - it is closed below
        if absent(con):
            transact(con, lambda cursor, _: [*map(cursor.execute, script(absent(con)))])
    except BaseException:
        con.close()
        raise
    return con


def where(path: object) -> str:
    """The absolute name of the file."""
    given = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(given, str) or given in {"", ":memory:"}:
        raise ValueError("the path of a file is needed")
    return os.path.join(os.getcwd(), given)  # noqa: PTH109, PTH118 - a Path would drop a slash at the end


def absent(con: sqlite3.Connection) -> list[str]:
    """The tables that are not there."""
    count = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    return [table for table in DDL if con.execute(count, (table,)).fetchone() == (0,)]


def script(tables: list[str]) -> list[str]:
    """What makes these tables."""
    return [DDL[table] for table in tables] + (list(EXTRAS) if "jobs" in tables else [])


# --- the queue --------------------------------------------------------------------------------------------------------


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """floor(min(cap, base * 2**(attempt - 1)) * jitter)."""
    judge(attempt=("attempt", attempt), base_ms=("duration", base_ms), cap_ms=("duration", cap_ms))
    judge(jitter=("ratio", jitter))
    if base_ms > cap_ms:
        raise ValueError("the cap is below the base")
    uncapped = base_ms * (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)[attempt - 1]
    return int(min(uncapped, cap_ms) * jitter)


def enqueue(con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3) -> bool:
    """True: added. False: known."""
    judge_dict(event, {"id": "name", "qty": "quantity"})
    judge(now_ms=("time", now_ms), ttl_ms=("duration", ttl_ms), max_attempts=("budget", max_attempts))
    name, quantity = event["id"], event["qty"]

    def add(cursor: sqlite3.Cursor, _: Signal) -> bool:
        values = (name, quantity, max_attempts, now_ms, now_ms + ttl_ms)
        try:
            cursor.execute(
                "INSERT INTO jobs (id, qty, max_attempts, available_at, deadline, status, attempts, token)"
                " VALUES (?, ?, ?, ?, ?, 'pending', 0, 0)",
                values,
            )
        except sqlite3.IntegrityError:
            if cursor.execute("SELECT 1 FROM jobs WHERE id = ? AND qty = ?", (name, quantity)).fetchall():
                return False
            raise Conflict(name) from None
        return True

    return bool(transact(con, add))


def claim(
    con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Signal | None = None
) -> dict[str, Any] | None:
    """The first due job, leased."""
    judge(owner=("name", owner), now_ms=("time", now_ms), lease_ms=("duration", lease_ms))
    ticket: dict[str, Any] | None = transact(con, partial(take, owner, now_ms, lease_ms), fault)
    return ticket


def take(owner: str, now_ms: int, lease_ms: int, cursor: sqlite3.Cursor, signal: Signal) -> dict[str, Any] | None:
    """Inside the transaction of a claim: bury, choose, lease."""
    for state, due in (("pending", "available_at"), ("leased", "lease_until")):
        over = "" if state == "pending" else f"AND {due} <= :now"
        cursor.execute(
            f"UPDATE jobs SET status = 'dead', owner = NULL, lease_until = NULL, reason = CASE WHEN :now >= deadline"  # noqa: S608 - the words above
            f" THEN 'deadline' ELSE 'exhausted' END WHERE status = '{state}' {over}"
            " AND NOT (:now < deadline AND attempts < max_attempts)",
            {"now": now_ms},
        )
    found = cursor.execute(
        "SELECT seq, attempts, max_attempts, token, deadline, id, qty FROM jobs WHERE seq = ("
        " SELECT min(first) FROM ("
        "  SELECT min(seq) AS first FROM jobs WHERE status = 'pending' AND available_at <= :now"
        "  UNION ALL SELECT min(seq) FROM jobs WHERE status = 'leased' AND lease_until <= :now))",
        {"now": now_ms},
    ).fetchall()
    for *known, name, quantity in found:
        row = Row(*known)
        until = min(row.deadline, now_ms + lease_ms)
        values = {"owner": owner, "until": until, "seq": row.seq}
        cursor.execute(
            "UPDATE jobs SET status = 'leased', owner = :owner, lease_until = :until, reason = NULL,"
            " attempts = attempts + 1, token = token + 1 WHERE seq = :seq",
            values,
        )
        signal("after-claim")
        shown = (name, quantity, owner, row.token + 1, row.tries + 1, until)
        return dict(zip(TICKET, shown, strict=True))
    return None


def finish(
    con: sqlite3.Connection,
    ticket: dict[str, Any],
    outcome: str,
    now_ms: int,
    delay_ms: int = 0,
    fault: Signal | None = None,
) -> str | bool:
    """The job's new status, if the ticket still holds."""
    judge_dict(ticket, TICKET)
    judge(outcome=("outcome", outcome), now_ms=("time", now_ms), delay_ms=("delay", delay_ms))
    answer: str | bool = transact(con, partial(settle, dict(ticket), outcome, now_ms, delay_ms), fault)
    return answer


def settle(
    ticket: dict[str, Any], outcome: str, now_ms: int, delay_ms: int, cursor: sqlite3.Cursor, signal: Signal
) -> str | bool:
    """Inside the transaction of a finish: compare, decide, write."""
    if now_ms >= ticket["lease_until"]:
        return False
    found = cursor.execute(
        "SELECT seq, attempts, max_attempts, token, deadline FROM jobs WHERE status = 'leased' AND id = :id"
        " AND qty IS :qty AND owner IS :owner AND token IS :token AND attempts IS :attempt"
        " AND lease_until IS :lease_until",
        ticket,
    ).fetchall()
    if not found or now_ms >= Row(*found[0]).deadline:
        return False
    row = Row(*found[0])
    status, reason = {"ok": ("done", None), "permanent": ("dead", "permanent")}.get(outcome, ("pending", "retry"))
    if status == "pending" and row.tries >= row.budget:
        status, reason = "dead", "exhausted"
    elif status == "pending" and now_ms + delay_ms >= row.deadline:
        status, reason = "dead", "deadline"
    later = now_ms + delay_ms * (status == "pending")
    cursor.execute(
        "REPLACE INTO jobs SELECT seq, id, qty, ?, attempts, max_attempts, token, ?, deadline, NULL, NULL, ?"
        " FROM jobs WHERE seq = ?",
        (status, later, reason, row.seq),
    )
    signal("after-finish")
    return status


def redrive(
    con: sqlite3.Connection, job_id: str, now_ms: int, ttl_ms: int, note: str, fault: Signal | None = None
) -> bool:
    """A dead job lives again; redrives says so."""
    judge(job_id=("name", job_id), now_ms=("time", now_ms), ttl_ms=("duration", ttl_ms), note=("name", note))

    def revive(cursor: sqlite3.Cursor, signal: Signal) -> bool:
        values = {"id": job_id, "now": now_ms, "end": now_ms + ttl_ms, "note": note}
        cursor.execute(
            "INSERT INTO redrives (id, token, at_ms, note)"
            " SELECT id, token, :now, :note FROM jobs WHERE status = 'dead' AND id = :id",
            values,
        )
        if cursor.rowcount != 1:
            raise ValueError(f"{job_id} is not a dead job")
        signal("after-audit")
        cursor.execute(
            "UPDATE jobs SET (status, attempts, available_at, deadline, owner, lease_until, reason)"
            " = ('pending', 0, :now, :end, NULL, NULL, NULL) WHERE id = :id",
            values,
        )
        signal("after-redrive")
        return True

    return bool(transact(con, revive, fault))


# --- the worker -------------------------------------------------------------------------------------------------------


def run_once(
    con: sqlite3.Connection,
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """Claim a job, send it, settle it."""
    judge(jitter=("ratio", jitter))
    claimed_at = clock()
    ticket = claim(con, owner, claimed_at, lease_ms)
    if ticket is None:
        return None
    outcome = "ok"
    try:
        answer = send(dict(zip(("id", "qty"), (ticket["id"], ticket["qty"]), strict=True)))
        if answer is not True:
            raise BadAck(f"send returned a {type(answer).__name__}")
    except (Retryable, Permanent) as error:
        outcome = "retry" if isinstance(error, Retryable) else "permanent"
    settled_at = clock()
    judge(clock=("time", settled_at))
    if claimed_at > settled_at:
        raise ValueError("time runs backwards")
    wait = {"retry": partial(retry_delay, ticket["attempt"], 100, 1000, jitter)}.get(outcome, int)()
    status = finish(con, ticket, outcome, settled_at, wait)
    return {"id": ticket["id"], "token": ticket["token"], "status": status if isinstance(status, str) else "stale"}


def run_file(
    path: str | os.PathLike[str],
    owner: str,
    clock: Callable[[], int],
    send: Callable[[dict[str, Any]], object],
    jitter: float,
    lease_ms: int = 1000,
) -> dict[str, Any] | None:
    """``run_once`` on a file of its own."""
    file = Path(where(path))
    if not file.is_file() or file.stat().st_size == 0:
        raise FileNotFoundError(f"{file} is no queue")
    con = open_queue(path)
    try:
        done = run_once(con, owner, clock, send, jitter, lease_ms)
    except BaseException:
        con.close()
        raise
    con.close()
    return done
