"""A right receiver on ``asyncio.Protocol``, without streams; every opening asks for the write lock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence

Fault = Callable[[str], object]

LONGEST = 64
ENOUGH = 64 * 1024
NUMBER = rb"0|[1-9][0-9]*"
EVENT = re.compile(rb"EVENT (?P<seq>%b) (?P<delta>-?[1-9][0-9]{0,3}|0)\n" % NUMBER)

SETUP = (
    "CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, last INTEGER NOT NULL, total INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledger (seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO checkpoint VALUES (1, -1, 0)",
)


class BadLine(ValueError):
    """Not a line."""


class Conflict(Exception):
    """Known with another delta."""


class Gap(Exception):
    """Too early."""


class ResyncRequired(Exception):
    """The log does not reach so far back, or not so far forward."""


def _require(holds: bool, what: str) -> None:  # noqa: FBT001 - the condition
    if not holds:
        raise ValueError(what)


def _is_event(seq: object, delta: object) -> bool:
    return type(seq) is int and seq >= 0 and type(delta) is int and abs(delta) <= 1000


def _name(path: object) -> str:
    name = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or name in ("", ":memory:"):
        raise ValueError("a path is needed")
    return name


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_pair(value: object) -> bool:
    return type(value) is tuple and len(value) == 2


def _is_log(log: object) -> bool:
    return isinstance(log, list | tuple) and 1 <= len(log) <= 128


# --- store ------------------------------------------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection to the store, which is made if it is not there."""
    name = _name(path)
    con = sqlite3.connect(f"{os.curdir}{os.sep}{name}" if not os.path.isabs(name) else name, isolation_level=None)  # noqa: PTH117 - a str
    try:
        con.execute("PRAGMA busy_timeout = 1500").close()
        _choose_journal(con)
        with _immediate(con):
            for statement in SETUP:
                con.execute(statement).close()
    except BaseException:
        con.close()
        raise
    return con


def _choose_journal(con: sqlite3.Connection) -> None:
    mode = con.execute("PRAGMA journal_mode = DELETE").fetchall()[0][0]
    if mode.lower() != "delete":
        raise sqlite3.OperationalError(f"database is locked in journal_mode {mode}")
    con.execute("PRAGMA synchronous = FULL").close()


@contextlib.contextmanager
def _immediate(con: sqlite3.Connection) -> Iterator[None]:
    """All or nothing of what is done inside."""
    con.execute("BEGIN IMMEDIATE").close()
    try:
        yield
        con.execute("COMMIT").close()
    except BaseException:
        if con.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                con.execute("ROLLBACK").close()
        raise


def _progress(con: sqlite3.Connection) -> tuple[int, int]:
    ((last, total),) = con.execute("SELECT last, total FROM checkpoint").fetchall()
    return last, total


def parse_line(data: bytes) -> tuple[int, int]:
    """What one line says."""
    found = EVENT.fullmatch(data) if type(data) is bytes and len(data) <= LONGEST else None
    if found is None or abs(int(found["delta"])) > 1000:
        raise BadLine("not an event")
    return int(found["seq"]), int(found["delta"])


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool:
    """Whether the event was new; it is processed now."""
    _require(_is_event(seq, delta), "not an event")
    with _immediate(con):
        last, _ = _progress(con)
        if seq > last + 1:
            raise Gap(f"{seq} after {last}")
        if seq <= last:
            known = con.execute("SELECT delta FROM ledger WHERE seq = ?", (seq,)).fetchall()
            if not known:
                raise sqlite3.DatabaseError(f"{seq} is lost")
            if known[0][0] != delta:
                raise Conflict(f"{seq} had {known[0][0]}")
            return False
        con.execute("UPDATE checkpoint SET total = total + ?", (delta,)).close()
        con.execute("INSERT INTO ledger VALUES (?, ?)", (seq, delta)).close()
        if fault is not None:
            fault("after-total")
        con.execute("UPDATE checkpoint SET last = last + 1").close()
    if fault is not None:
        fault("after-commit")
    return True


def consume_line(con: sqlite3.Connection, data: bytes, fault: Fault | None = None) -> bytes:
    """The acknowledgement of the event that the line says, once it is processed."""
    seq, delta = parse_line(data)
    apply_event(con, seq, delta, fault)
    return f"ACK {seq}\n".encode()


def replay(log: Sequence[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]:
    """At most ``limit`` events after the cursor."""
    _require(_is_log(log), "a log has 1 to 128 events")
    _require(_is_int(cursor) and cursor >= -1, "a cursor is -1 or more")
    _require(_is_int(limit) and 1 <= limit <= 16, "a limit is 1 to 16")
    for place, event in enumerate(log):
        _require(_is_pair(event) and _is_event(*event), "an event is (seq, delta)")
        _require(event[0] == log[0][0] + place, "a log has no gap")
    if cursor < log[0][0] - 1 or cursor > log[-1][0]:
        raise ResyncRequired("out of the log")
    return [event for event in log if event[0] > cursor][:limit]


# --- network ----------------------------------------------------------------------------------------------------------


class _Wire(asyncio.Protocol):
    """A connection: lines come in, and answers go out while the kernel takes them."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._news, self._free, self._lost = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._free.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for mypy
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > ENOUGH:
            self.transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        self._ended = True
        self._news.set()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        for event in (self._news, self._free, self._lost):
            event.set()

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    async def line(self) -> bytes | None:
        """The next line; None at the end."""
        while (end := self._buffer.find(b"\n", 0, LONGEST)) < 0:
            if len(self._buffer) >= LONGEST:
                raise BadLine("too long")
            if self._error is not None:
                raise self._error
            if self._ended:
                if self._buffer:
                    raise BadLine("cut off")
                return None
            self._news.clear()
            await self._news.wait()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        if len(self._buffer) <= ENOUGH and not self._ended:
            self.transport.resume_reading()
        return line

    async def send(self, data: bytes) -> None:
        """Hand it over, and wait if too much waits already."""
        if not self._lost.is_set():
            self.transport.write(data)
            await self._free.wait()
        if self._lost.is_set():
            raise self._error or ConnectionResetError("the connection is lost")

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - the contract's
        """Closed, once all is sent or the time is over."""
        self.transport.close()
        try:
            async with asyncio.timeout(timeout):
                await self._lost.wait()
        finally:
            if not self._lost.is_set():
                self.transport.abort()
                await self._lost.wait()


async def run_client(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    timeout: float,  # noqa: ASYNC109 - the contract's
    fault: Fault | None = None,
) -> tuple[int, int]:
    """Receive until the publisher has closed; last and total."""
    with contextlib.closing(open_store(path)) as con:
        async with asyncio.timeout(timeout):
            _, wire = await asyncio.get_running_loop().create_connection(_Wire, host, port)
        try:
            await _follow(con, wire, timeout, fault)
        except BaseException:
            with contextlib.suppress(Exception):
                await wire.close(timeout)
            raise
        await wire.close(timeout)
        return _progress(con)


async def _follow(con: sqlite3.Connection, wire: _Wire, timeout: float, fault: Fault | None) -> None:  # noqa: ASYNC109 - the contract's
    answer = b"RESUME %d\n" % _progress(con)[0]
    while True:
        async with asyncio.timeout(timeout):
            await wire.send(answer)
        async with asyncio.timeout(timeout):
            line = await wire.line()
        if line is None:
            return
        answer = consume_line(con, line, fault)
