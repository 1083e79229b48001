"""The process that dies: ``python -m chaos.child`` performs one operation and stands still at one of its stages.

The order is one line of JSON on stdin, the answer one line of JSON on stdout. stdin stays open for as long as the
process may live: when it closes, whatever the operation is doing, the process ends.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from chaos.stages import FIRST_CLOCK, SECOND_CLOCK, SEND, Stand, watch, watch_answer, watch_opening
from chaos.systems import SYSTEMS
from model.contract import Odd, Raise, Reopen, Reply, Return, RunOnce
from model.counterexample import Op, show
from model.port import Subject, Unfit, one_line, perform
from model.queue import Worker

SMALL_CACHE: Final = "PRAGMA cache_size = 1"
"""Pages: what does not fit is written to the file before the COMMIT."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which kind of module and where it is, which file it works on, which operation (its ``repr``), and the hook or
    stage to stand still in.

    ``after``: a statement counts only from that clock reading on. ``tight``: the connection has the small cache.
    """

    kind: str
    module: str
    file: str
    op: str
    hook: str
    after: str = ""
    tight: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """What the process says, once: it stands in the hook, or why it never will.

    ``called`` are the hooks that were called, in order; ``text`` what the operation replied, or what went wrong.
    A fork server says first of all that it is ready, or why it is not safe to fork.
    """

    what: Literal["stands", "ended", "unopened", "unloaded", "ready", "unsafe"]
    text: str = ""
    called: tuple[str, ...] = ()


def encode(value: Order | Word) -> bytes:
    """One line of JSON: an object of the fields."""
    return json.dumps({name: getattr(value, name) for name in value.__slots__}).encode() + b"\n"


def main() -> None:
    """Obey one order; returns only if the operation did not stand still."""
    import threading  # noqa: PLC0415 - a fork server imports this module, and its forks are cheaper without

    words = os.dup(1)
    os.dup2(2, 1)  # what the module prints is not a word
    with open(0, "rb", buffering=0, closefd=False) as orders:
        order = Order(**json.loads(orders.readline()))
    threading.Thread(target=end_with, args=[0], daemon=True).start()
    connections = opened()

    def stand(word: Word) -> None:
        os.write(words, encode(word))
        threading.Event().wait()

    system = SYSTEMS[order.kind]
    try:
        module = system.load(order.module)
    except Unfit as problem:
        word = Word("unloaded", str(problem))
    else:
        word = obey(system.subject(module, Path(order.file)), order, system.parse(order.op), connections, stand)
    os.write(words, encode(word))


def end_with(pipe: int) -> None:
    """Wait until the other end of ``pipe`` is closed, then end this process, whatever it is doing."""
    os.read(pipe, 1)
    os._exit(1)


def opened() -> list[sqlite3.Connection]:
    """Grows with every connection that this process opens from now on, whoever opens it."""
    connections: list[sqlite3.Connection] = []

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect/handle":
            connections.append(args[0])

    sys.addaudithook(audit)
    return connections


def obey(
    subject: Subject[Any, Any],
    order: Order,
    op: Op,
    connections: list[sqlite3.Connection],
    stop: Callable[[Word], object],
) -> Word:
    """``stop``, which does not return, where the process has to stand; or the word that it never came to that."""
    stand = Stand(order.hook, lambda called: stop(Word("stands", called=called)))
    if isinstance(op, Reopen):
        watch_opening(connections, stand)
    try:
        con = subject.open()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        return Word("unopened", one_line(error))
    finally:
        sys.setprofile(None)
    if order.tight:
        con.execute(SMALL_CACHE).close()
    if not order.after:
        watch(con, stand)
    reply = _run(subject, con, op, order, stand)
    sys.setprofile(None)
    return Word("ended", f"{'' if isinstance(reply, Raise) else 'returns '}{show(reply)}", tuple(stand.called))


def _run(subject: Subject[Any, Any], con: sqlite3.Connection, op: Op, order: Order, stand: Stand) -> Reply:
    match op:
        case RunOnce():
            return _run_once(cast("Worker", subject.module), con, op, order, stand)
        case Reopen():
            return Return(Odd("a connection"))
        case _:
            return perform(subject, con, op, stand.passes)


def _run_once(worker: Worker, con: sqlite3.Connection, op: RunOnce, order: Order, stand: Stand) -> Reply:
    readings = iter(((FIRST_CLOCK, op.first_ms), (SECOND_CLOCK, op.second_ms)))

    def clock() -> int:
        stage, now_ms = next(readings)
        stand.passes(stage)
        if stage == order.after:
            watch(con, stand)
        return now_ms

    def send(_: dict[str, Any]) -> bool:
        stand.passes(SEND)
        if op.send == "retryable":
            raise worker.Retryable
        if op.send == "permanent":
            raise worker.Permanent
        return True

    watch_answer(send, stand)
    try:
        ran = worker.run_once(con, op.owner, clock, send, op.jitter, op.lease_ms)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        return Raise(one_line(error))
    return Return(Odd(repr(ran)))


if __name__ == "__main__":
    main()
