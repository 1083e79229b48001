"""One process of a storm: a worker that claims, sends and finishes, or an operator that enqueues and redrives.

It writes a history of its own, and dies or stops where its fate says. Its words go to a pipe that all of them share,
each a whole line: so the words of all have one order. What it is told comes through a FIFO of its own.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sqlite3
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from chaos.courier import deliver
from chaos.wire import encode
from model.contract import (
    BOUNDS,
    RETRY_BASE_MS,
    RETRY_CAP_MS,
    Claim,
    Enqueue,
    Finish,
    Plain,
    Redrive,
    Reply,
    Return,
    Ticket,
    parse,
)
from model.history import invoke_line, note_line, return_line
from model.port import perform
from model.queue import Queue, Worker

CLOCK: Final = struct.Struct("q")
"""What the clock file holds: ms, moved by the harness alone."""

TIMEOUT_S: Final = 10.0
TRIES: Final = 5

SENDS, SENT, CLAIM_READ, FINISH_READ, STATEMENT = "sends", "sent", "claim read", "finish read", "statement"
AGAIN = "finish again"
"""Places of a worker besides the two ends and the hooks of its operations: about to send, answered by the receiver,
between a reading of the clock and the operation that uses it, about to execute one statement of SQL; and between a
finish and another one with the same ticket at the same time, which only who stops there makes."""


@dataclass(frozen=True, slots=True)
class Post:
    """What a process has to know when it starts; ``skew_ms`` is how far its clock is ahead."""

    name: str
    owner: str
    queue: str
    history: str
    orders: str
    clock: str
    skew_ms: int
    port: int


@dataclass(frozen=True, slots=True)
class Fate:
    """What a process is told: for a worker, one claim and what follows from it; for an operator, some operations.

    It dies by SIGKILL at the place ``dies``, stops by SIGSTOP at the place ``stalls``; ``nth`` is which statement.
    ``says`` is its outcome if it does not send at all. Its lease ends at ``until``, if it can, or after ``lease_ms``.
    """

    dies: str = ""
    stalls: str = ""
    nth: int = 0
    says: str = ""
    lease_ms: int = 1000
    until: int = 0
    jitter: float = 1.0
    ops: tuple[str, ...] = ()


# --- one process ------------------------------------------------------------------------------------------------------


class Life:
    """One process: its connection, its history file, its clock, and where it is to die or to stop."""

    def __init__(self, post: Post, worker: Worker, words: int) -> None:
        self.post, self.queue = post, Queue(worker, Path(post.queue))
        self._words = words
        self._orders = Path(post.orders).open("rb", buffering=0)  # noqa: SIM115 - for as long as it lives
        self._history = os.open(post.history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with Path(post.clock).open("rb") as file:
            self._clock = mmap.mmap(file.fileno(), CLOCK.size, access=mmap.ACCESS_READ)
        self._fate, self._statements = Fate(), 0
        self._con = self._opened()

    def _opened(self) -> sqlite3.Connection:
        """To find the file locked is legal, and tried again; the trace sees each statement before it is executed."""
        for _ in range(TRIES - 1):
            try:
                return self.queue.worker.open_queue(self.queue.path)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
        return self.queue.worker.open_queue(self.queue.path)

    def ask(self, *word: object) -> Fate:
        """Say the word, and wait for what to do."""
        self._say(*word)
        return self.told()

    def told(self) -> Fate:
        line = self._orders.readline()
        if not line:
            os._exit(1)  # who tells is gone
        fate = json.loads(line)
        return Fate(**{**fate, "ops": tuple(fate["ops"])})

    def _say(self, *word: object) -> None:
        os.write(self._words, encode(self.post.name, *word))

    def now_ms(self) -> int:
        (now,) = CLOCK.unpack(self._clock[:])
        return int(now) + self.post.skew_ms

    def live(self, turn: Callable[[], list[object]]) -> NoReturn:
        """Turn after turn, each with a fate of its own."""
        said: list[object] = []
        while True:
            self._fate, self._statements = self.ask("idle", *said), 0
            self._con.set_trace_callback(self._count if self._fate.nth else None)
            said = turn()

    def _count(self, _: str) -> None:
        self._statements += 1
        if self._statements == self._fate.nth:
            self._passes(STATEMENT)

    def _passes(self, place: str) -> None:
        """Die or stop here, if it is here; a stop lasts until SIGCONT."""
        if self._fate.dies == place:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fate.stalls == place:
            self._fate = replace(self._fate, stalls="")
            self._note("stops", place=place)
            self._say("stops", place)
            os.kill(os.getpid(), signal.SIGSTOP)

    def _do(self, op: Plain) -> Reply:
        """Perform it between two lines of the history, which the kernel has before the next thing happens."""
        kind = type(op).__name__.lower()
        self._write(invoke_line(self.post.name, op, time.monotonic_ns()))
        self._passes(f"{kind} invoked")
        reply = perform(self.queue, self._con, op, lambda hook: self._passes(f"{kind} {hook}"))
        self._write(return_line(self.post.name, reply, time.monotonic_ns()))
        self._passes(f"{kind} returned")
        return reply

    def _note(self, what: str, **more: int | str) -> None:
        self._write(note_line(self.post.name, what, time.monotonic_ns(), **more))

    def _write(self, line: str) -> None:
        os.write(self._history, line.encode())

    # --- what it does -------------------------------------------------------------------------------------------------

    def work(self) -> list[object]:
        """Claim, send, finish as ``run_once`` does; what was claimed and what the finish said, if it came to that."""
        now_ms = self.now_ms()
        self._passes(CLAIM_READ)
        reply = self._do(Claim(self.post.owner, now_ms, self._lease_ms(now_ms)))
        ticket = reply.value if isinstance(reply, Return) else None
        if not isinstance(ticket, Ticket):
            return []
        self.ask("sends", ticket.id, ticket.token, ticket.lease_until)
        outcome = self._send(ticket)
        if not outcome:
            return [ticket.id, ticket.token, None]
        delay_ms = 0
        if outcome == "retry":
            jitter = self._fate.jitter
            delay_ms = self.queue.worker.retry_delay(ticket.attempt, RETRY_BASE_MS, RETRY_CAP_MS, jitter)
        now_ms = self.now_ms()
        self._passes(FINISH_READ)
        finish = Finish(ticket, outcome, now_ms, delay_ms)
        again, reply = self._fate.stalls == AGAIN, self._do(finish)
        self._passes(AGAIN)
        if again:
            reply = self._do(finish)
        return [ticket.id, ticket.token, reply.value if isinstance(reply, Return) and reply in _PLAIN else None]

    def _lease_ms(self, now_ms: int) -> int:
        wanted = self._fate.until - now_ms
        return wanted if BOUNDS["lease_ms"].allows(wanted) else self._fate.lease_ms

    def _send(self, ticket: Ticket) -> str:
        """The outcome; empty if nobody knows what became of it, so that the lease has to decide."""
        self._passes(SENDS)
        if self._fate.says:
            return self._fate.says
        worker, outcome = self.queue.worker, ""
        self._note("sends", job=ticket.id, token=ticket.token)
        try:
            answer = deliver(worker, {"id": ticket.id, "qty": ticket.qty}, self.post.port, TIMEOUT_S)
            outcome = "ok" if answer is True else ""
        except worker.Retryable:
            outcome = "retry"
        except worker.Permanent:
            outcome = "permanent"
        except Exception:  # noqa: BLE001, S110 - whatever it is, the receiver may have the delivery or not
            pass
        self._note("sent", job=ticket.id, token=ticket.token, outcome=outcome or "unknown")
        self._passes(SENT)
        return outcome

    def operate(self) -> list[object]:
        """Enqueue and redrive, each at its own time."""
        for text in self._fate.ops:
            op = parse(text)
            if isinstance(op, Enqueue | Redrive):
                self._do(replace(op, now_ms=self.now_ms()))
        return []


_PLAIN: Final = (Return("done"), Return("dead"), Return("pending"), Return(value=False))


def line(value: Post | Fate) -> bytes:
    """One line of JSON: an object of the fields."""
    return json.dumps(asdict(value)).encode() + b"\n"
