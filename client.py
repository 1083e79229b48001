"""A receiver of numbered events that takes up where a dead one left off: cursor and ledger in one SQLite transaction.

The publisher sends lines ``EVENT <seq> <delta>``; the receiver says ``RESUME <last>`` when it connects, and answers
``ACK <seq>`` once an event is committed. An event that comes again is acknowledged again and counted once; one that
comes again with another delta, or before its predecessor, is an error and changes nothing.

The functions that borrow a connection never close it, refuse one with an open transaction, and leave none behind. Where
others write or read at the same time, each of them may raise ``sqlite3.OperationalError: database is locked`` after the
connection's timeout, with nothing changed.

A call changes its connection and its file, and nothing else: it prints nothing, leaves no thread, process, descriptor
or other file behind, and alters nothing of the process it runs in. Nor does the import.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

__all__ = [
    "BadLine",
    "Conflict",
    "Gap",
    "ResyncRequired",
    "apply_event",
    "consume_line",
    "open_store",
    "parse_line",
    "replay",
    "run_client",
]

_T = TypeVar("_T")
_Fault = Callable[[str], object]


class Conflict(Exception):
    """The event was processed before, with another delta."""


class Gap(Exception):
    """An event before this one is still missing."""


class ResyncRequired(Exception):
    """The log cannot bring this receiver up to date: what it needs next is gone, or it is ahead of the log."""


class BadLine(ValueError):
    """Not a line of the protocol; nothing of it was applied, and nothing after it may be."""


_TABLES: Final = {
    "checkpoint": """\
CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK(id = 1),
  last INTEGER NOT NULL, total INTEGER NOT NULL)""",
    "ledger": "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)",
}

_BOUNDS: Final = {
    "delta": (-1000, 1000),
    "line": (1, 64),
    "log": (1, 128),
    "limit": (1, 16),
}
_LINE_BYTES: Final = _BOUNDS["line"][1]

# [0-9] is ASCII and fullmatch allows no second newline; \d, int() and `$` would let more through.
_LINE: Final = re.compile(rb"EVENT (0|[1-9][0-9]*) (0|-?[1-9][0-9]*)\n")

# --- values -----------------------------------------------------------------------------------------------------------


def _is_int(value: object, low: int, high: float = math.inf) -> bool:
    """Whether ``value`` is an int, and no bool, from ``low`` to ``high``."""
    return type(value) is int and low <= value <= high


def _event(seq: object, delta: object) -> None:
    """ValueError unless both have the form of an event."""
    low, high = _BOUNDS["delta"]
    if not _is_int(seq, 0):
        raise ValueError("seq must be an int from 0 on")
    if not _is_int(delta, low, high):
        raise ValueError(f"delta must be an int from {low} to {high}")


def _file_name(path: object) -> str:
    """``path`` as a str; ValueError for what is neither a str nor an os.PathLike of one, or names no file."""
    name = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise ValueError("path must be a str or an os.PathLike of one")  # noqa: TRY004 - each wrong value is a ValueError
    if name in ("", ":memory:"):
        raise ValueError("a store is a local file")
    return name


def _seconds(timeout: object) -> float:
    """``timeout`` if it is a finite time above 0; else ValueError."""
    if (type(timeout) is int or type(timeout) is float) and 0 < timeout < math.inf:
        return timeout
    raise ValueError("timeout must be a number of seconds above 0")


# --- the store --------------------------------------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open the store file at ``path`` and make what is missing of it; rows that are there stay.

    ``checkpoint`` has one row, id=1, with ``last`` -1 and ``total`` 0 at the start; ``ledger`` has one for each event.
    The connection has isolation_level=None, a timeout of 1 s, journal_mode=DELETE and synchronous=FULL; whoever opens
    it closes it. ValueError if ``path`` names no file. Whatever fails, no connection stays open.
    """
    # With "./" in front, an SQLite built with SQLITE_USE_URI does not take a file name for a URI.
    name = os.path.join(".", _file_name(path))  # noqa: PTH118 - Path drops "./"
    con = sqlite3.connect(name, timeout=1, isolation_level=None)
    try:
        _initialise(con)
    except BaseException:
        with contextlib.suppress(Exception):
            con.close()
        raise
    return con


def _initialise(con: sqlite3.Connection) -> None:
    if _row(con, "PRAGMA journal_mode = DELETE") != ("delete",):
        raise sqlite3.OperationalError("the journal_mode cannot be changed to DELETE")
    con.execute("PRAGMA synchronous = FULL")
    # Looking first keeps the opening of a busy store from waiting for the write lock.
    if _missing_tables(con) or _missing_checkpoint(con):
        _write(con, lambda: _create(con))


def _missing_tables(con: sqlite3.Connection) -> list[str]:
    there = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [table for table in _TABLES if (table,) not in there]


def _missing_checkpoint(con: sqlite3.Connection) -> bool:
    return _row(con, "SELECT 1 FROM checkpoint") is None


def _create(con: sqlite3.Connection) -> None:
    for table in _missing_tables(con):
        con.execute(_TABLES[table])
    if _missing_checkpoint(con):
        con.execute("INSERT INTO checkpoint (id, last, total) VALUES (1, -1, 0)")


def _write(con: sqlite3.Connection, body: Callable[[], _T]) -> _T:
    """The result of ``body``, run inside one BEGIN IMMEDIATE ... COMMIT.

    Whatever BEGIN, ``body`` or COMMIT raises arrives as the same object, with everything rolled back and no
    transaction open. ``sqlite3.ProgrammingError`` if ``con`` already has one, which stays as it was.
    """
    if con.in_transaction:
        raise sqlite3.ProgrammingError("the connection has an open transaction")
    # No context manager: an interrupt can arrive between its `yield` and the `with`, and leave all open. For
    # the same reason BEGIN is inside the `try`, and safely so: there is no other transaction to roll back.
    try:
        con.execute("BEGIN IMMEDIATE")
        result = body()
        # A COMMIT can fail under a reader even if there is nothing to commit; a ROLLBACK cannot.
        con.execute("ROLLBACK" if result is False else "COMMIT")
    except BaseException:
        # A full disk has rolled back already, and this error must not hide that one.
        with contextlib.suppress(Exception):
            con.execute("ROLLBACK")
        raise
    return result


def _row(con: sqlite3.Connection, sql: str, *values: int) -> tuple[Any, ...] | None:
    """The first row as a plain tuple, whatever the connection's row_factory; no cursor stays half-read."""
    with contextlib.closing(con.cursor()) as cursor:
        cursor.row_factory = None
        row: tuple[Any, ...] | None = cursor.execute(sql, values).fetchone()
        return row


def _checkpoint(con: sqlite3.Connection) -> tuple[int, int]:
    """``last`` and ``total``."""
    row = _row(con, "SELECT last, total FROM checkpoint WHERE id = 1")
    if row is None:
        raise sqlite3.DatabaseError("the store has lost its checkpoint")
    last, total = row
    return last, total


# --- events -----------------------------------------------------------------------------------------------------------


def parse_line(data: bytes) -> tuple[int, int]:
    """``(seq, delta)`` of one line, its LF included; BadLine for anything else.

    A line is exact bytes, at most 64 of them, with one way only to write each number. seq has no bound but the line's.
    """
    low, high = _BOUNDS["delta"]
    match = _LINE.fullmatch(data) if type(data) is bytes and len(data) <= _LINE_BYTES else None
    if match is None or not low <= int(match[2]) <= high:
        raise BadLine(f"not a line of the protocol: {_shown(data)}")
    return int(match[1]), int(match[2])


def _shown(data: object) -> str:
    """A few bytes are enough to tell a bad line; none of anything else."""
    return repr(data[: _LINE_BYTES + 1]) if isinstance(data, bytes) else type(data).__name__


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: _Fault | None = None) -> bool:
    """True once the event has its row in the ledger, its share in the total, and is the last one; all or nothing.

    False, with nothing changed, if it was processed before with the same delta; Conflict if with another one; Gap if an
    earlier one is missing. ValueError before any SQL unless seq is an int from 0 on and delta one from -1000 to 1000.
    ``sqlite3.DatabaseError`` if the store is damaged: it counts an event as processed and has no row of it.
    Hooks, on the way to True only: ``after-total`` inside the transaction, with ``last`` still to be moved, and
    ``after-commit`` outside it.
    """
    _event(seq, delta)
    if fresh := _write(con, lambda: _apply(con, seq, delta, fault)):
        _reach(fault, "after-commit")
    return fresh


def _apply(con: sqlite3.Connection, seq: int, delta: int, fault: _Fault | None) -> bool:
    last, _ = _checkpoint(con)
    if seq > last + 1:  # not to be named: Python does not write out an int of thousands of digits
        raise Gap(f"an event is missing after event {last}")
    if seq <= last:
        _require_same(con, seq, delta)
        return False
    con.execute("INSERT INTO ledger (seq, delta) VALUES (?, ?)", (seq, delta))
    con.execute("UPDATE checkpoint SET total = total + ? WHERE id = 1", (delta,))
    _reach(fault, "after-total")
    con.execute("UPDATE checkpoint SET last = ? WHERE id = 1", (seq,))
    return True


def _require_same(con: sqlite3.Connection, seq: int, delta: int) -> None:
    known = _row(con, "SELECT delta FROM ledger WHERE seq = ?", seq)
    if known is None:
        raise sqlite3.DatabaseError(f"the store is damaged: event {seq} counts as processed and is not in the ledger")
    if known != (delta,):
        raise Conflict(f"event {seq} was processed with delta {known[0]}, not {delta}")


def _reach(fault: _Fault | None, hook: str) -> None:
    if fault is not None:
        fault(hook)


def consume_line(con: sqlite3.Connection, data: bytes, fault: _Fault | None = None) -> bytes:
    """Apply the event of one line, and only then return its acknowledgement, ``ACK <seq>`` and LF.

    An event that was processed before gets its acknowledgement too, so that the publisher can stop sending it.
    BadLine, and whatever ``apply_event`` raises, means that there is none.
    """
    seq, delta = parse_line(data)
    apply_event(con, seq, delta, fault)
    return b"ACK %d\n" % seq


def replay(log: Sequence[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]:
    """For the publisher: the first ``limit`` (1-16) events of ``log`` after ``cursor`` (-1 on), in their order.

    ``log`` is a list or tuple of 1-128 events ``(seq, delta)``, seq by seq. ResyncRequired if the event after
    ``cursor`` is no longer in it, or ``cursor`` is beyond its end: the newest events alone would be a silent loss.
    ValueError for anything else, an empty log included, which cannot tell whether it was empty from the start.
    """
    first, last = _span(log)
    if not _is_int(cursor, -1):
        raise ValueError("cursor must be an int from -1 on")
    if not _is_int(limit, *_BOUNDS["limit"]):
        raise ValueError("limit must be an int from {} to {}".format(*_BOUNDS["limit"]))
    if not first <= cursor + 1 <= last + 1:
        raise ResyncRequired("the log neither holds the event after the cursor nor ends with the one before it")
    start = cursor + 1 - first
    return list(log[start : start + limit])


def _span(log: object) -> tuple[int, int]:
    """First and last seq of a log; ValueError unless it is one."""
    if not isinstance(log, list | tuple) or not _is_int(len(log), *_BOUNDS["log"]):
        raise ValueError("log must be a list or tuple of {} to {} events".format(*_BOUNDS["log"]))
    for event in log:
        if type(event) is not tuple or len(event) != 2:
            raise ValueError("an event must be a tuple of seq and delta")
        _event(*event)
    first = int(log[0][0])
    if [seq for seq, _ in log] != list(range(first, first + len(log))):
        raise ValueError("the events of a log must be consecutive")
    return first, first + len(log) - 1


# ruff: noqa: ASYNC109 - the contract names it, and it bounds each wait, not the call
# --- the receiver -----------------------------------------------------------------------------------------------------


async def run_client(
    path: str | os.PathLike[str], host: str, port: int, timeout: float, fault: _Fault | None = None
) -> tuple[int, int]:
    """Receive from one connection until the publisher closes it at a line's end; ``(last, total)`` of the store then.

    ``timeout``, in seconds, bounds each wait for the network (to connect, for a line, to send, to close), not all of
    them together, nor the database. One that is too long is a TimeoutError; a bad line, one over 64 bytes and an end in
    the middle of one are a BadLine. After an error nothing more is read. Whatever happens, store and connection are
    closed, and an error on the way does not replace the first one. To connect again is to call again.

    The database is used from the event loop itself: whatever else runs there waits meanwhile.
    """
    timeout = _seconds(timeout)
    con = open_store(path)
    try:
        await _receive(con, host, port, timeout, fault)
        result = _checkpoint(con)
    except BaseException:
        with contextlib.suppress(Exception):
            con.close()
        raise
    con.close()
    return result


async def _receive(con: sqlite3.Connection, host: str, port: int, timeout: float, fault: _Fault | None) -> None:
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(host, port, limit=_LINE_BYTES)
    try:
        await _send(writer, b"RESUME %d\n" % _checkpoint(con)[0], timeout)
        while line := await _next_line(reader, timeout):
            await _send(writer, consume_line(con, line, fault), timeout)
    except BaseException:
        with contextlib.suppress(Exception):
            await _close(writer, timeout)
        raise
    await _close(writer, timeout)


async def _next_line(reader: asyncio.StreamReader, timeout: float) -> bytes:
    """The next line; empty if the publisher has closed the connection after the one before."""
    try:
        async with asyncio.timeout(timeout):
            return await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise BadLine(f"a line of more than {_LINE_BYTES} bytes") from None
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise BadLine(f"the connection ended in the middle of a line: {end.partial!r}") from None
        return b""


async def _send(writer: asyncio.StreamWriter, data: bytes, timeout: float) -> None:
    writer.write(data)
    async with asyncio.timeout(timeout):
        await writer.drain()


async def _close(writer: asyncio.StreamWriter, timeout: float) -> None:
    """Close the connection once all is sent; a TimeoutError, and closed all the same, if that takes too long."""
    writer.close()
    # A task: to cancel the wait itself, as a timeout around it does, would make every later wait end at once.
    closed = asyncio.ensure_future(writer.wait_closed())
    try:
        sent, _ = await asyncio.wait([closed], timeout=timeout)
    finally:
        # Not where all is sent: a transport that was closed by its last write has let go of its loop.
        if writer.transport.get_write_buffer_size():
            writer.transport.abort()
        await asyncio.wait([closed])
        error = closed.exception()
    if not sent:
        raise TimeoutError("the publisher does not read what it is sent")
    if error is not None:
        raise error
