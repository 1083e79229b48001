"""What the processes of a delivery say to each other: lines of JSON over pipes, and one body over HTTP."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import Any

Say = Callable[..., None]


def encode(*words: object) -> bytes:
    """One line of JSON: the list of ``words``, of which the first says what the others are."""
    return json.dumps(words).encode() + b"\n"


def mouth() -> Say:
    """What says words, each call a whole line, on this process's stdout; whatever else is printed goes to stderr."""
    words, turn = os.dup(1), threading.Lock()
    os.dup2(2, 1)

    def say(*word: object) -> None:
        with turn:
            os.write(words, encode(*word))

    return say


def ear() -> Iterator[list[Any]]:
    """The orders on stdin, for ever: when it closes, whatever this process is doing, it ends. So none is orphaned."""
    orders: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        with open(0, "rb", closefd=False) as lines:
            for line in lines:
                orders.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(orders.get())


def acknowledgement(event: Mapping[str, object]) -> bytes:
    """The one body that says of this delivery, and of no other, that the receiver has it."""
    return json.dumps({"received": {"id": event["id"], "qty": event["qty"]}}).encode()
