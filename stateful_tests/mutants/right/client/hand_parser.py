"""A right receiver that reads byte by byte and writes digit by digit; the total is added up in Python."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sqlite3
import typing

Fault = typing.Callable[[str], object]
T = typing.TypeVar("T")

ZERO, NINE, MINUS, SPACE, LF = b"09- \n"
WORD = b"EVENT "
WIDTH = 64


class BadLine(ValueError):
    """What was read is no line."""


class Conflict(Exception):
    """What was read before was another."""


class Gap(Exception):
    """What was to be read before was not."""


class ResyncRequired(Exception):
    """What is to be read next is not there."""


# --- reading ----------------------------------------------------------------------------------------------------------


class Scanner:
    """A place in a line."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    @property
    def here(self) -> int | None:
        return self.data[self.place] if self.place < len(self.data) else None

    def skip(self, *wanted: int) -> None:
        for byte in wanted:
            if self.here != byte:
                raise BadLine(f"byte {self.place} is not {byte}")
            self.place += 1

    def natural(self) -> int:
        """A number from 0 on, which begins with 0 only if it is 0."""
        start, value = self.place, 0
        while self.here is not None and ZERO <= self.here <= NINE:
            value = 10 * value + self.here - ZERO
            self.place += 1
        digits = self.place - start
        if digits == 0 or (digits > 1 and self.data[start] == ZERO):
            raise BadLine(f"no number at byte {start}")
        return value

    def number(self) -> int:
        """As natural, or with a minus in front, but then not 0."""
        if self.here != MINUS:
            return self.natural()
        self.place += 1
        if (value := self.natural()) == 0:
            raise BadLine("0 has no sign")
        return -value


def parse_line(data: bytes) -> tuple[int, int]:
    """What one line says."""
    if type(data) is not bytes:
        raise BadLine("bytes, please")
    if len(data) > WIDTH:
        raise BadLine("too many bytes")
    scanner = Scanner(data)
    scanner.skip(*WORD)
    seq = scanner.natural()
    scanner.skip(SPACE)
    delta = scanner.number()
    scanner.skip(LF)
    if scanner.here is not None or not -1000 <= delta <= 1000:
        raise BadLine("too much")
    return seq, delta


def write_number(value: int) -> bytes:
    """The digits of a number from 0 on."""
    return (write_number(value // 10) if value >= 10 else b"") + bytes([ZERO + value % 10])


# --- storing ----------------------------------------------------------------------------------------------------------


def file_of(path: object) -> pathlib.Path:
    """The path, whole."""
    if isinstance(path, str | os.PathLike) and str(path) not in ("", ":memory:"):
        return pathlib.Path(path).absolute()
    raise ValueError("a file")


def open_store(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open the file, and make of it what it is not yet."""
    con = sqlite3.connect(file_of(path), isolation_level=None, timeout=0.5)
    try:
        set_up(con)
        in_one(con, prepare)
    except BaseException:
        con.close()
        raise
    return con


def set_up(con: sqlite3.Connection) -> None:
    """A journal that is deleted, and a disk that is waited for."""
    if ("delete",) not in con.execute("pragma journal_mode=delete").fetchall():
        raise OSError("the journal is not to be had")
    con.execute("pragma synchronous=full")


def prepare(con: sqlite3.Connection) -> bool:
    """Make what is missing; whether something was."""
    tables = [name for (name,) in con.execute("select name from sqlite_master where type = 'table'").fetchall()]
    if "ledger" not in tables:
        con.execute("create table ledger (seq integer primary key not null, delta integer not null)")
    if "checkpoint" not in tables:
        con.execute("create table checkpoint (id integer primary key, last integer, total integer)")
    rows = con.execute("select id from checkpoint").fetchall()
    if not rows:
        con.execute("insert into checkpoint values (1, -1, 0)")
    return len(tables) < 2 or not rows


def in_one(con: sqlite3.Connection, body: typing.Callable[[sqlite3.Connection], bool]) -> bool:
    """What the body says; kept if that is True, and given up if it is False or an error."""
    con.execute("begin immediate")
    keep = False
    try:
        keep = body(con)
        if keep:
            con.execute("commit")
    finally:
        if con.in_transaction:
            give_up(con)
    return keep


def give_up(con: sqlite3.Connection) -> None:
    """Roll back; what failed before is the error, not this."""
    try:
        con.execute("rollback")
    except sqlite3.Error:
        return


def position(con: sqlite3.Connection) -> tuple[int, int]:
    """Where the store stands: last and total."""
    ((last, total),) = con.execute("select last, total from checkpoint where id = 1").fetchall()
    return last, total


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool:
    """Count the event, unless it is counted."""
    if type(seq) is not int or seq < 0:
        raise ValueError("seq")
    if type(delta) is not int or abs(delta) > 1000:
        raise ValueError("delta")

    def count(con: sqlite3.Connection) -> bool:
        last, total = position(con)
        if seq <= last:
            return compare(con, seq, delta)
        if seq != last + 1:
            raise Gap(f"{seq} is not {last + 1}")
        con.execute("insert into ledger (seq, delta) values (?, ?)", [seq, delta])
        con.execute("update checkpoint set total = ? where id = 1", [total + delta])
        if fault is not None:
            fault("after-total")
        con.execute("update checkpoint set last = ? where id = 1", [seq])
        return True

    if not in_one(con, count):
        return False
    if fault is not None:
        fault("after-commit")
    return True


def compare(con: sqlite3.Connection, seq: int, delta: int) -> typing.Literal[False]:
    """False for the same event."""
    known = [row[0] for row in con.execute("select delta from ledger where seq = ?", [seq]).fetchall()]
    if not known:
        raise LookupError(f"event {seq} was counted and is gone")
    if known != [delta]:
        raise Conflict(f"event {seq} was {known[0]}")
    return False


def consume_line(con: sqlite3.Connection, data: bytes, fault: Fault | None = None) -> bytes:
    """Count what the line says, and acknowledge it."""
    seq, delta = parse_line(data)
    apply_event(con, seq, delta, fault=fault)
    return b"ACK " + write_number(seq) + b"\n"


def replay(log: typing.Sequence[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]:
    """What to say next."""
    if type(cursor) is not int or cursor < -1 or type(limit) is not int or not 0 < limit <= 16:
        raise ValueError("cursor, limit")
    if not isinstance(log, list | tuple) or not 0 < len(log) <= 128:
        raise ValueError("log")
    expected, found = None, list[tuple[int, int]]()
    for event in log:
        match event:
            case (seq, delta) if type(event) is tuple and type(seq) is int and type(delta) is int:
                if seq < 0 or not -1000 <= delta <= 1000 or (expected is not None and seq != expected):
                    raise ValueError("event")
            case _:
                raise ValueError("event")
        expected = seq + 1
        if seq > cursor and len(found) < limit:
            found.append((seq, delta))
    if log[0][0] > cursor + 1 or log[-1][0] < cursor:
        raise ResyncRequired("start anew")
    return found


# --- receiving --------------------------------------------------------------------------------------------------------


class Lines:
    """The lines of a stream, in whatever pieces it comes."""

    def __init__(self, reader: asyncio.StreamReader, timeout: float) -> None:
        self.reader, self.timeout, self.held = reader, timeout, bytearray()

    def __aiter__(self) -> typing.Self:
        return self

    async def __anext__(self) -> bytes:
        while (end := self.held.find(LF)) < 0:
            if len(self.held) >= WIDTH:
                raise BadLine("no LF in 64 bytes")
            piece = await bounded(self.reader.read(WIDTH), self.timeout)
            self.held += piece
            if not piece and self.held:
                raise BadLine("no LF at the end")
            if not piece:
                raise StopAsyncIteration
        line = bytes(self.held[: end + 1])
        del self.held[: end + 1]
        return line


async def bounded(wait: typing.Coroutine[typing.Any, typing.Any, T], timeout: float) -> T:  # noqa: ASYNC109 - the contract's
    """The wait, or TimeoutError."""
    async with asyncio.timeout(timeout):
        return await wait


async def run_client(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    timeout: float,  # noqa: ASYNC109 - the contract's
    fault: Fault | None = None,
) -> tuple[int, int]:
    """Read to the end; where that is."""
    con = open_store(path)
    try:
        reader, writer = await bounded(asyncio.open_connection(host, port, limit=WIDTH), timeout)
        try:
            writer.write(b"RESUME %d\n" % position(con)[0])
            await bounded(writer.drain(), timeout)
            async for line in Lines(reader, timeout):
                writer.write(consume_line(con, line, fault))
                await bounded(writer.drain(), timeout)
        except BaseException:
            await part(writer, timeout, hurt=True)
            raise
        await part(writer, timeout, hurt=False)
        return position(con)
    finally:
        con.close()


async def part(writer: asyncio.StreamWriter, timeout: float, *, hurt: bool) -> None:  # noqa: ASYNC109 - the contract's
    """Close, and be it by force; an error counts only if nothing is hurt yet."""
    writer.close()
    try:
        await bounded(writer.wait_closed(), timeout)
    except Exception:
        if not hurt:
            raise
    finally:
        if writer.transport.get_write_buffer_size():
            writer.transport.abort()
