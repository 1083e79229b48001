"""The courier: ``python -m chaos.courier PATH`` claims, or calls ``run_file``, with the module at PATH.

What its send makes of an HTTP answer, and whether the receiver then has the delivery:

======================================  ==========================  =====================================
what comes back                         what the send does          did it happen?
======================================  ==========================  =====================================
200 with exactly this acknowledgement   returns True                yes
no connection: refused, or not in time  raises Retryable            no: nothing was sent
429, 503                                raises Retryable            the receiver says no, and may be wrong
400, 409                                raises Permanent            no, and it never will
200 with any other body                 returns that body: BadAck   unknown
any other status, such as 500           raises Unclear              unknown
reset, cut off, or silent too long      lets the error through      unknown
======================================  ==========================  =====================================

What is unknown is left to the lease: the next courier sends again, and the receiver removes the duplicate.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import sqlite3
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.wire import Say, acknowledgement, ear, mouth
from model.contract import LOCKED, PLANTED, Claim, Op, Raise, Ran, Reopen, Reply, Return, RunOnce, parse
from model.counterexample import show
from model.port import BEFORE_SQL, one_line, perform, raised, returned
from model.queue import Queue, Worker, load

WRITES: Final = re.compile(
    BEFORE_SQL + r"(BEGIN\s+(IMMEDIATE|EXCLUSIVE)|(WITH\b.*\b)?(INSERT|UPDATE|DELETE|REPLACE))\b",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that waits for the write lock before it does anything."""


TIMEOUT_S: Final = 0.9
"""A little less than the second for which a connection waits: a busy machine can only make it longer."""


class Unclear(Exception):
    """A status that says neither yes, nor no, nor later."""


@dataclass(frozen=True, slots=True)
class Order:
    """One operation, as its ``repr``, on one queue file: a Reopen, a Claim, or a RunOnce by way of ``run_file``.

    A run's sends go to ``port`` and wait ``timeout_s`` for each step. It is repeated up to ``runs`` times, as long as
    there is a job or the file is locked.
    """

    queue: str
    op: str
    port: int = 0
    timeout_s: float = 20.0
    runs: int = 1


def text(reply: Reply, seconds: float = TIMEOUT_S) -> str:
    """The reply as a courier says it; that the file is locked may be said only after the timeout."""
    if reply == LOCKED and seconds < TIMEOUT_S:
        return f"{show(reply)}, without waiting"
    return "raises the very error of its send" if reply == PLANTED else show(reply)


def deliver(worker: Worker, event: dict[str, Any], port: int, timeout_s: float) -> object:
    """Send one event, and make of the answer what the table says."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)) as line:
        try:
            line.connect()
        except OSError as error:
            raise worker.Retryable(one_line(error)) from error
        line.request("POST", "/", json.dumps(event), {"Content-Type": "application/json"})
        answer = line.getresponse()
        body = answer.read()
    match answer.status:
        case 200:
            return body == acknowledgement(event) or body.decode()
        case 429 | 503:
            raise worker.Retryable(answer.status)
        case 400 | 409:
            raise worker.Permanent(answer.status)
    raise Unclear(answer.status)


class Courier:
    """The module, the connection that its claims use, and what became of each send."""

    def __init__(self, worker: Worker, say: Say) -> None:
        self._worker, self._say = worker, say
        self._con: sqlite3.Connection | None = None
        self._sends: list[str] = []
        self._error: BaseException | None = None

    def obey(self, order: Order) -> None:
        """Carry out one order. The word is ``ended``, the replies, and what its sends did."""
        op, replies = parse(order.op), list[str]()
        self._sends = []
        for _ in range(order.runs):
            start = time.monotonic()
            reply = self._perform(op, order)
            replies.append(text(reply, time.monotonic() - start))
            if reply != LOCKED and not (isinstance(reply, Return) and isinstance(reply.value, Ran)):
                break
        self._say("ended", replies, self._sends)

    def _perform(self, op: Op, order: Order) -> Reply:
        match op:
            case Reopen():
                return self._reopen(order.queue)
            case Claim():
                return self._claim(op, order.queue)
            case RunOnce():
                return self._run(op, order)
        raise ValueError(f"not for a courier: {op}")

    def _reopen(self, path: str) -> Reply:
        if self._con:
            self._con.close()
        try:
            self._con = self._worker.open_queue(path)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            return Raise(one_line(error))
        return Return(None)

    def _claim(self, op: Claim, path: str) -> Reply:
        """Says ``writes`` once the claim has come to a statement that has to wait for the write lock."""
        con, waits = self._con, False
        if con is None:
            raise ValueError("a Reopen comes first")

        def watch(sql: str) -> None:
            nonlocal waits
            if not waits and WRITES.match(sql):
                waits = True
                self._say("writes")

        con.set_trace_callback(watch)
        reply = perform(Queue(self._worker, Path(path)), con, op)
        con.set_trace_callback(None)
        return reply

    def _run(self, op: RunOnce, order: Order) -> Reply:
        self._error = None

        def send(event: dict[str, Any]) -> object:
            try:
                answer = deliver(self._worker, event, order.port, order.timeout_s)
            except BaseException as error:
                self._error = error
                self._sends.append(type(error).__name__)
                raise
            self._sends.append("True" if answer is True else "another return")
            return answer

        clock = iter((op.first_ms, op.second_ms)).__next__
        try:
            return returned(self._worker.run_file(order.queue, op.owner, clock, send, op.jitter, op.lease_ms))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - each is a reply
            return raised(Queue(self._worker, Path(order.queue)), error, self._error)


def main() -> None:
    """Obey orders until stdin closes."""
    say = mouth()
    courier = Courier(load(sys.argv[1]), say)
    for order in ear():
        courier.obey(Order(**order[0]))


if __name__ == "__main__":
    main()
