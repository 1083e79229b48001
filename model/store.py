"""The event stream at the port: what a ``client.py`` must offer, how it is asked, and what it leaves in its file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from model import port, steps, stream
from model.contract import CLIENT, Kind
from model.events import Apply, Checkpoint, Consume, Entry, Op, Plain, State
from model.port import Fault, Model


class Client(Protocol):
    """What a receiver must offer: six functions and four errors."""

    @property
    def BadLine(self) -> type[ValueError]: ...  # noqa: N802 - the contract names it
    @property
    def Conflict(self) -> type[Exception]: ...  # noqa: N802
    @property
    def Gap(self) -> type[Exception]: ...  # noqa: N802
    @property
    def ResyncRequired(self) -> type[Exception]: ...  # noqa: N802

    def open_store(self, path: str | os.PathLike[str]) -> sqlite3.Connection: ...
    def parse_line(self, data: bytes) -> tuple[int, int]: ...
    def apply_event(self, con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool: ...
    def consume_line(self, con: sqlite3.Connection, data: bytes, fault: Fault | None = None) -> bytes: ...
    def replay(self, log: Sequence[tuple[int, int]], cursor: int, limit: int) -> list[tuple[int, int]]: ...
    def run_client(
        self, path: str | os.PathLike[str], host: str, port: int, timeout: float, fault: Fault | None = None
    ) -> Coroutine[Any, Any, tuple[int, int]]: ...


def load(path: str | os.PathLike[str]) -> Client:
    """The client module at ``path``; Unfit if it is none."""
    return cast("Client", port.load(path, CLIENT))


@dataclass(frozen=True, slots=True)
class Store:
    """The module under test and the store file it works on."""

    client: Client
    path: Path
    kind: ClassVar[Kind] = CLIENT
    tables: ClassVar = {"checkpoint": Checkpoint, "ledger": Entry}

    @property
    def module(self) -> Client:
        return self.client

    @property
    def model(self) -> Model[State, Op]:
        return stream

    def open(self) -> sqlite3.Connection:
        steps.note("client.open_store")
        return self.client.open_store(self.path)

    def call(self, con: sqlite3.Connection, op: Plain, fault: Fault | None, planted: BaseException) -> object:  # noqa: ARG002 - nothing but a hook can raise it
        """What the module's function returns."""
        match op:
            case Apply():
                return self.client.apply_event(con, op.seq, op.delta, fault)
            case Consume():
                return self.client.consume_line(con, op.data, fault)

    def observe(self, con: sqlite3.Connection) -> State:
        return observe(con)

    def ranked(self, rows: State) -> State:
        return rows


def observe(con: sqlite3.Connection) -> State:
    """Every row of both tables in one consistent read; no cursor stays half-read."""
    with port.consistent(con):
        return State(port.rows(con, "checkpoint", Checkpoint), port.rows(con, "ledger", Entry))
