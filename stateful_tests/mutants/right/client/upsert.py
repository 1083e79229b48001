"""A right receiver that lets SQLite decide: an UPDATE that fits only the next event, upserts, CHECKs, WITHOUT ROWID."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

Fault = Callable[[str], object]

SCHEMA = """
    CREATE TABLE IF NOT EXISTS ledger (
        seq INTEGER NOT NULL CHECK (seq >= 0),
        delta INTEGER NOT NULL CHECK (delta BETWEEN -1000 AND 1000),
        PRIMARY KEY (seq)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS checkpoint (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        last INTEGER NOT NULL DEFAULT -1 CHECK (last >= -1),
        total INTEGER NOT NULL DEFAULT 0
    );
    INSERT INTO checkpoint (id, last, total) VALUES (1, -1, 0) ON CONFLICT (id) DO NOTHING
"""
READY = """
    SELECT (SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('ledger', 'checkpoint')) = 2
"""
ADD = """
    INSERT INTO checkpoint (id, last, total) SELECT id, last, :delta FROM checkpoint WHERE last = :seq - 1
    ON CONFLICT (id) DO UPDATE SET total = total + excluded.total
"""
NOTE = "INSERT INTO ledger (seq, delta) VALUES (:seq, :delta)"
MOVE = "UPDATE checkpoint SET last = :seq WHERE id = 1"
BOTH = "UPDATE checkpoint SET (last, total) = (:seq, total + :delta) WHERE last = :seq - 1"
JUDGE = """
    SELECT last, (SELECT delta FROM ledger WHERE seq = :seq) FROM checkpoint WHERE id = 1
"""
LARGEST = 2**63 - 1
DIGITS = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class BadLine(ValueError):
    """No event."""


class Conflict(Exception):
    """Another event."""


class Gap(Exception):
    """An event that comes too early."""


class ResyncRequired(Exception):
    """Events that the log has not."""


# --- the store --------------------------------------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """The store in this file; made, where there is none."""
    name = os.fspath(path)
    if name in ("", ":memory:"):
        raise ValueError("no path of a file")
    con = sqlite3.connect(os.path.join(os.curdir, name), isolation_level=None, timeout=2)  # noqa: PTH118 - a str
    try:
        _set(con)
        if not _is_ready(con):
            _begin(con)
            _end(con, lambda: [con.execute(statement) for statement in SCHEMA.split(";")])
    except BaseException:
        con.close()
        raise
    return con


def _set(con: sqlite3.Connection) -> None:
    con.execute("PRAGMA synchronous = 2")
    if con.execute("PRAGMA journal_mode = DELETE").fetchall() != [("delete",)]:
        raise sqlite3.OperationalError("others have this file open in another journal_mode")


def _is_ready(con: sqlite3.Connection) -> bool:
    there = con.execute(READY).fetchall() == [(1,)]
    return there and con.execute("SELECT id FROM checkpoint").fetchall() == [(1,)]


def _begin(con: sqlite3.Connection) -> None:
    con.execute("BEGIN IMMEDIATE")


def _end(con: sqlite3.Connection, work: Callable[[], object]) -> None:
    """What was begun, done; or undone, if the work or the COMMIT fails."""
    done = False
    try:
        work()
        con.execute("COMMIT")
        done = True
    finally:
        if not done:
            with suppress(sqlite3.Error):
                con.rollback()


def _stand(con: sqlite3.Connection) -> tuple[int, int]:
    (row,) = con.execute("SELECT last, total FROM checkpoint WHERE id = 1").fetchall()
    return row[0], row[1]


# --- events -----------------------------------------------------------------------------------------------------------


def parse_line(data: bytes) -> tuple[int, int]:
    """What the line says, or BadLine."""
    if type(data) is not bytes or len(data) > 64 or data[:6] != b"EVENT " or data[-1:] != b"\n":
        raise BadLine("EVENT seq delta")
    words = data[6:-1].decode("latin-1").split(" ")
    if len(words) != 2 or not all(map(DIGITS.fullmatch, words)):
        raise BadLine("two numbers")
    seq, delta = map(int, words)
    if seq < 0 or not -1000 <= delta <= 1000:
        raise BadLine("out of bounds")
    return seq, delta


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool:
    """True for a new event, False for a known one."""
    for name, value, low, high in (("seq", seq, 0, None), ("delta", delta, -1000, 1000)):
        if type(value) is not int or value < low or (high is not None and value > high):
            raise ValueError(f"{name} is no such number")
    event, new = {"seq": min(seq, LARGEST), "delta": delta}, False

    def work() -> None:
        nonlocal new
        if seq >= LARGEST:
            raise Gap("no store holds so many")
        new = _add(con, event, fault)
        if not new:
            _judge(con, event)

    _begin(con)
    _end(con, work)
    if new and fault is not None:
        fault("after-commit")
    return new


def _add(con: sqlite3.Connection, event: dict[str, int], fault: Fault | None) -> bool:
    """Whether it was the next; without a hook between them, cursor and total move at once."""
    if con.execute(BOTH if fault is None else ADD, event).rowcount != 1:
        return False
    con.execute(NOTE, event)
    if fault is not None:
        fault("after-total")
        con.execute(MOVE, event)
    return True


def _judge(con: sqlite3.Connection, event: dict[str, int]) -> None:
    """Nothing, if the event is known as it is."""
    ((last, known),) = con.execute(JUDGE, event).fetchall()
    if event["seq"] > last:
        raise Gap(f"the last is {last}")
    if known is None:
        raise sqlite3.IntegrityError("a row of the ledger is lost")
    if known != event["delta"]:
        raise Conflict(f"its delta was {known}")


def consume_line(con: sqlite3.Connection, data: bytes, fault: Fault | None = None) -> bytes:
    """ACK, for what is processed."""
    seq, delta = parse_line(data)
    apply_event(con, seq, delta, fault)
    return b"".join((b"ACK ", str(seq).encode(), b"\n"))


def replay(log: Sequence[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]:
    """The next events."""
    if not isinstance(log, (list, tuple)) or len(log) not in range(1, 129):
        raise ValueError("log")
    if type(cursor) is not int or cursor < -1 or type(limit) is not int or limit not in range(1, 17):
        raise ValueError("cursor or limit")
    for event in log:
        if type(event) is not tuple or [type(part) for part in event] != [int, int]:
            raise ValueError("event")
        if event[0] < 0 or not -1000 <= event[1] <= 1000:
            raise ValueError("event")
    first, end = log[0][0], log[0][0] + len(log)
    if tuple(seq for seq, _ in log) != tuple(range(first, end)):
        raise ValueError("gap")
    if cursor + 1 not in range(first, end + 1):
        raise ResyncRequired(f"{first} to {end - 1}")
    return [log[seq - first] for seq in range(cursor + 1, min(cursor + 1 + limit, end))]


# --- a session --------------------------------------------------------------------------------------------------------


async def run_client(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    timeout: float,  # noqa: ASYNC109 - the contract's
    fault: Fault | None = None,
) -> tuple[int, int]:
    """Take events until there are no more."""
    with closing(open_store(path)) as con:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, limit=64)
        try:
            answer = b"RESUME %d\n" % _stand(con)[0]
            while answer:
                writer.write(answer)
                async with asyncio.timeout(timeout):
                    await writer.drain()
                async with asyncio.timeout(timeout):
                    line = await reader.readline()
                answer = consume_line(con, line, fault) if line else b""
            writer.close()
            async with asyncio.timeout(timeout):
                await writer.wait_closed()
        except BaseException:
            writer.close()
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            raise
        return _stand(con)
