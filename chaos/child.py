"""The process that dies: ``python -m chaos.child`` performs one operation and stands still in one of its fault hooks.

The order is one line of JSON on stdin, the answer one line of JSON on stdout. stdin stays open for as long as the
process may live: when it closes, whatever the operation is doing, the process ends.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from model.contract import Odd, Op, Raise, Reopen, Reply, Return, RunOnce, parse
from model.counterexample import show
from model.port import NotAWorker, Queue, load, one_line, perform

SMALL_CACHE: Final = "PRAGMA cache_size = 1"
"""Pages: what does not fit is written to the file before the COMMIT."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which module, which queue file, which operation (its ``repr``), and the hook to stand still in.

    ``send`` is the hook of ``run_once``. ``tight``: its connection has the small cache.
    """

    worker: str
    queue: str
    op: str
    hook: str
    tight: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """What the process says, once: it stands in the hook, or why it never will.

    ``called`` are the hooks that were called, in order; ``text`` what the operation replied, or what went wrong.
    """

    what: Literal["stands", "ended", "unopened", "unloaded"]
    text: str = ""
    called: tuple[str, ...] = ()


def encode(value: Order | Word) -> bytes:
    """One line of JSON: an object of the fields."""
    return json.dumps(asdict(value)).encode() + b"\n"


def main() -> None:
    """Obey one order; returns only if the operation did not stand still."""
    words = os.dup(1)
    os.dup2(2, 1)  # what the module prints is not a word
    with open(0, "rb", buffering=0, closefd=False) as orders:
        order = Order(**json.loads(orders.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.write(words, encode(_obey(order, lambda word: os.write(words, encode(word)))))


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


def _obey(order: Order, say: Callable[[Word], object]) -> Word:
    try:
        queue = Queue(load(order.worker), Path(order.queue))
    except NotAWorker as problem:
        return Word("unloaded", str(problem))
    try:
        con = queue.worker.open_queue(queue.path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        return Word("unopened", one_line(error))
    if order.tight:
        con.execute(SMALL_CACHE).close()
    called: list[str] = []

    def hook(name: str) -> None:
        called.append(name)
        if name == order.hook:
            say(Word("stands", called=tuple(called)))
            threading.Event().wait()

    reply = _run(queue, con, parse(order.op), hook)
    return Word("ended", f"{'' if isinstance(reply, Raise) else 'returns '}{show(reply)}", tuple(called))


def _run(queue: Queue, con: sqlite3.Connection, op: Op, hook: Callable[[str], None]) -> Reply:
    match op:
        case RunOnce():
            return _run_once(queue, con, op, hook)
        case Reopen():
            raise ValueError("a Reopen has no hook to stand in")
        case _:
            return perform(queue, con, op, hook)


def _run_once(queue: Queue, con: sqlite3.Connection, op: RunOnce, hook: Callable[[str], None]) -> Reply:
    clock = iter((op.first_ms, op.second_ms)).__next__
    try:
        ran = queue.worker.run_once(con, op.owner, clock, lambda _: hook("send"), op.jitter, op.lease_ms)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        return Raise(one_line(error))
    return Return(Odd(repr(ran)))


if __name__ == "__main__":
    main()
