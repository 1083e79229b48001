"""A right receiver of classes on a bare socket: one for values, one for the store, one for a session."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self, cast

Fault = Callable[[str], object]


class BadLine(ValueError):
    """Not one line of the protocol."""


class Conflict(Exception):
    """One seq, two deltas."""


class Gap(Exception):
    """Something is missing before it."""


class ResyncRequired(Exception):
    """The log holds other events than those that are needed."""


class Event(NamedTuple):
    """A checked event."""

    seq: int
    delta: int

    @classmethod
    def of(cls, seq: object, delta: object) -> Self:
        if type(seq) is not int or type(delta) is not int or seq < 0 or delta not in range(-1000, 1001):
            raise ValueError("seq is an int from 0 on, delta one from -1000 to 1000")
        return cls(seq, delta)

    @classmethod
    def read(cls, data: object) -> Self:
        """The event that these bytes are the one way to write."""
        if type(data) is not bytes or not 0 < len(data) <= 64:
            raise BadLine("a line is 1 to 64 bytes")
        try:
            word, seq, delta = data.decode("ascii").split(" ")
            event = cls.of(int(seq), int(delta))
        except ValueError:
            raise BadLine("a line is EVENT, seq and delta") from None
        if word != "EVENT" or event.line != data:
            raise BadLine("a line is written in one way")
        return event

    @property
    def line(self) -> bytes:
        return f"EVENT {self.seq} {self.delta}\n".encode()

    @property
    def ack(self) -> bytes:
        return f"ACK {self.seq}\n".encode()


@dataclass
class Store:
    """A borrowed connection; as a context, one transaction that a known event ends without a change."""

    con: sqlite3.Connection
    changed: bool = False

    def run(self, sql: str, **named: int) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.con.execute(sql, named).fetchall()]

    def __enter__(self) -> Self:
        self.run("BEGIN IMMEDIATE")
        self.changed = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.run("COMMIT" if self.changed else "ROLLBACK")
        finally:
            if self.con.in_transaction:
                with suppress(sqlite3.Error):
                    self.run("ROLLBACK")

    def create(self) -> None:
        if (mode := self.run("PRAGMA journal_mode(delete)")) != [("delete",)]:
            raise sqlite3.NotSupportedError(f"journal_mode {mode}")
        self.run("PRAGMA synchronous(full)")
        with self:
            there = {row[0] for row in self.run("SELECT lower(name) FROM sqlite_schema")}
            if "ledger" not in there:
                self.run("CREATE TABLE ledger (seq INTEGER NOT NULL PRIMARY KEY, delta INTEGER NOT NULL) WITHOUT ROWID")
            if "checkpoint" not in there:
                self.run("CREATE TABLE checkpoint (id INT PRIMARY KEY CHECK (id IN (1)), last INT, total INT) STRICT")
            if not self.run("SELECT id FROM checkpoint WHERE id = 1"):
                self.run("INSERT INTO checkpoint (total, last, id) VALUES (0, -1, 1)")
            self.changed = True

    @property
    def position(self) -> tuple[int, int]:
        rows = self.run("SELECT last, total FROM checkpoint WHERE id = 1 LIMIT 1")
        if len(rows) != 1:
            raise sqlite3.DataError("no checkpoint")
        return cast("tuple[int, int]", tuple(rows[0]))

    def take(self, event: Event, reach: Callable[[str], object]) -> bool:
        with self:
            last, total = self.position
            if event.seq - last > 1:
                raise Gap(f"last is {last}")
            if event.seq <= last:
                self._recall(event)
                return False
            self.changed = True
            self.run("INSERT INTO ledger (delta, seq) VALUES (:delta, :seq)", **event._asdict())
            self.run("UPDATE checkpoint SET total = :total WHERE id = 1", total=total + event.delta)
            reach("after-total")
            self.run("UPDATE checkpoint SET last = :seq WHERE last = :seq - 1", seq=event.seq)
        reach("after-commit")
        return True

    def _recall(self, event: Event) -> None:
        match self.run("SELECT count(*), max(delta) FROM ledger WHERE seq = :seq", seq=event.seq):
            case [(1, event.delta)]:
                return
            case [(1, other)]:
                raise Conflict(f"it had the delta {other}")
        raise sqlite3.DataError("the ledger has lost the event")


def _nothing(_: str) -> None:
    """A hook that is not there."""


@dataclass
class Session:
    """One connection, read piece by piece."""

    sock: socket.socket
    timeout: float
    rest: bytes = b""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def connect(self, host: str, port: int) -> None:
        async with asyncio.timeout(self.timeout):
            await self.loop.sock_connect(self.sock, (host, port))

    async def say(self, data: bytes) -> None:
        async with asyncio.timeout(self.timeout):
            await self.loop.sock_sendall(self.sock, data)

    async def line(self) -> bytes:
        """The next line; nothing once the peer has closed at the end of one."""
        async with asyncio.timeout(self.timeout):
            while b"\n" not in self.rest[:64]:
                if len(self.rest) >= 64:
                    raise BadLine("longer than 64 bytes")
                piece = await self.loop.sock_recv(self.sock, 4096)
                if not piece and self.rest:
                    raise BadLine("ends in mid-line")
                if not piece:
                    return b""
                self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n"


# --- what is offered --------------------------------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """The store's file, open."""
    name = os.fspath(path)
    if type(name) is not str or name in ("", ":memory:"):
        raise ValueError("a path of a file")
    con = sqlite3.connect(os.path.abspath(name), timeout=0.8, isolation_level=None)  # noqa: PTH100 - "." and ".." may stay
    try:
        Store(con).create()
    except BaseException:
        con.close()
        raise
    return con


def parse_line(data: bytes) -> tuple[int, int]:
    """What the line says."""
    return tuple(Event.read(data))  # type: ignore[return-value]  # a tuple of two


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool:
    """Process the event if it is the next."""
    return Store(con).take(Event.of(seq, delta), _nothing if fault is None else fault)


def consume_line(con: sqlite3.Connection, data: bytes, fault: Fault | None = None) -> bytes:
    """Process the line's event; its acknowledgement."""
    event = Event.read(data)
    apply_event(con, *event, fault)
    return event.ack


def replay(log: Iterable[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]:
    """The part of the log that comes next."""
    if type(log) not in (list, tuple) or type(cursor) is not int or type(limit) is not int:
        raise ValueError("a list, an int and an int")
    held = [Event.of(*event) if type(event) is tuple and len(event) == 2 else Event.of(None, None) for event in log]
    if not (1 <= len(held) <= 128 and cursor >= -1 and 1 <= limit <= 16):
        raise ValueError("1 to 128 events, a cursor from -1 on, a limit from 1 to 16")
    if any(after.seq - before.seq != 1 for before, after in pairwise(held)):
        raise ValueError("each event follows the one before")
    index = {event.seq: place for place, event in enumerate(held, 1)}
    index[held[0].seq - 1] = 0
    if cursor not in index:
        raise ResyncRequired("not in the log")
    return [tuple(event) for event in held[index[cursor] :][:limit]]  # type: ignore[misc]  # tuples of two


async def run_client(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    timeout: float,  # noqa: ASYNC109 - the contract's
    fault: Fault | None = None,
) -> tuple[int, int]:
    """One session; where the store stands after it."""
    con = open_store(path)
    try:
        with socket.socket() as sock:
            sock.settimeout(0)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # closing early may drop what waits to be sent
            session = Session(sock, timeout)
            await session.connect(host, port)
            await session.say(f"RESUME {Store(con).position[0]}\n".encode())
            while line := await session.line():
                await session.say(consume_line(con, line, fault))
        return Store(con).position
    finally:
        con.close()
