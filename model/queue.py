"""The lease queue at the port: what a ``worker.py`` must offer, how it is asked, and what it leaves in its file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from model import lease, port, steps
from model.contract import (
    WORKER,
    Audit,
    Claim,
    Enqueue,
    Finish,
    Job,
    Kind,
    Op,
    Plain,
    Redrive,
    RunOnce,
    State,
    Ticket,
)
from model.port import Fault, Model, perform


class Worker(Protocol):
    """What a lease queue must offer: eight functions and four errors."""

    @property
    def Conflict(self) -> type[Exception]: ...  # noqa: N802 - the contract names it
    @property
    def Retryable(self) -> type[Exception]: ...  # noqa: N802
    @property
    def Permanent(self) -> type[Exception]: ...  # noqa: N802
    @property
    def BadAck(self) -> type[Exception]: ...  # noqa: N802

    def retry_delay(self, attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int: ...
    def open_queue(self, path: str | os.PathLike[str]) -> sqlite3.Connection: ...
    def enqueue(
        self, con: sqlite3.Connection, event: dict[str, Any], now_ms: int, ttl_ms: int, max_attempts: int = 3
    ) -> bool: ...
    def claim(
        self, con: sqlite3.Connection, owner: str, now_ms: int, lease_ms: int = 1000, fault: Fault | None = None
    ) -> dict[str, Any] | None: ...
    def finish(
        self,
        con: sqlite3.Connection,
        ticket: dict[str, Any],
        outcome: str,
        now_ms: int,
        delay_ms: int = 0,
        fault: Fault | None = None,
    ) -> str | bool: ...
    def redrive(
        self,
        con: sqlite3.Connection,
        job_id: str,
        now_ms: int,
        ttl_ms: int,
        note: str,
        fault: Fault | None = None,
    ) -> bool: ...
    def run_once(
        self,
        con: sqlite3.Connection,
        owner: str,
        clock: Callable[[], int],
        send: Callable[[dict[str, Any]], object],
        jitter: float,
        lease_ms: int = 1000,
    ) -> dict[str, Any] | None: ...
    def run_file(
        self,
        path: str | os.PathLike[str],
        owner: str,
        clock: Callable[[], int],
        send: Callable[[dict[str, Any]], object],
        jitter: float,
        lease_ms: int = 1000,
    ) -> dict[str, Any] | None: ...


def load(path: str | os.PathLike[str]) -> Worker:
    """The worker module at ``path``; Unfit if it is none."""
    return cast("Worker", port.load(path, WORKER))


@dataclass(frozen=True, slots=True)
class Queue:
    """The module under test and the queue file it works on."""

    worker: Worker
    path: Path
    kind: ClassVar[Kind] = WORKER
    tables: ClassVar = {"jobs": Job, "redrives": Audit}

    @property
    def module(self) -> Worker:
        return self.worker

    @property
    def model(self) -> Model[State, Op]:
        return lease

    def open(self) -> sqlite3.Connection:
        steps.note("worker.open_queue")
        return self.worker.open_queue(self.path)

    def call(self, con: sqlite3.Connection, op: Plain | RunOnce, fault: Fault | None, planted: BaseException) -> object:
        """What the module's function returns."""
        worker = self.worker
        match op:
            case Enqueue():
                return worker.enqueue(con, {"id": op.id, "qty": op.qty}, op.now_ms, op.ttl_ms, op.max_attempts)
            case Claim():
                return worker.claim(con, op.owner, op.now_ms, op.lease_ms, fault)
            case Finish():
                return worker.finish(con, ticket_dict(op.ticket), op.outcome, op.now_ms, op.delay_ms, fault)
            case Redrive():
                return worker.redrive(con, op.job_id, op.now_ms, op.ttl_ms, op.note, fault)
            case RunOnce():
                clock = iter((op.first_ms, op.second_ms)).__next__
                return worker.run_once(con, op.owner, clock, _sender(self, op, planted), op.jitter, op.lease_ms)

    def observe(self, con: sqlite3.Connection) -> State:
        return observe(con)

    def ranked(self, rows: State) -> State:
        return ranked(rows)


def _sender(queue: Queue, op: RunOnce, planted: BaseException) -> Callable[[dict[str, Any]], object]:
    """A send that lets ``meanwhile`` happen on a second connection, spoils its dict, and then does what it was told."""
    worker = queue.worker

    def send(event: dict[str, Any]) -> object:
        if op.meanwhile:
            with contextlib.closing(queue.open()) as other:
                for step in op.meanwhile:
                    perform(queue, other, step)
        event.clear()
        match op.send:
            case "retryable":
                raise worker.Retryable("later")
            case "permanent":
                raise worker.Permanent("never")
            case "error":
                raise planted
            case "bad-ack":
                return 1
            case "ok":
                return True

    return send


def ticket_dict(ticket: Ticket) -> dict[str, Any]:
    """The ticket as the contract writes it: a new dict of exactly six keys."""
    return {name: getattr(ticket, name) for name in Ticket.__slots__}


# --- looking from outside ---------------------------------------------------------------------------------------------


def observe(con: sqlite3.Connection) -> State:
    """Every row of both tables in one consistent read, in the order of ``seq``; no cursor stays half-read."""
    with port.consistent(con):
        return State(port.rows(con, "jobs", Job), port.rows(con, "redrives", Audit))


def ranked(state: State) -> State:
    """Rows numbered by rank, as the model numbers them: that ``seq`` grows is promised, that it has no gaps is not."""
    return State(
        tuple(job._replace(seq=rank) for rank, job in enumerate(state.jobs, 1)),
        tuple(audit._replace(seq=rank) for rank, audit in enumerate(state.redrives, 1)),
    )
