"""The process that forks those that die: ``python -m chaos.forkserver KIND MODULE``, ten times as fast as new ones.

It imports the module once and never opens an SQLite connection: a copy of an open one would take its locks and its
journal along when it ends. It never starts a thread either, so that what it forks is whole. A module that does one or
the other when it is imported makes it say ``unsafe`` and end.

Orders come as lines of JSON on stdin, one at a time; on stdout stand the word of the process and then, on a line of its
own, the status that ``waitpid`` saw, both with its pid in front. When stdin closes, a process that stands still ends
at once, then the server; one that is on the way to where it should stand has ``HASTE_S`` left.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, Final

from chaos.child import Order, Word, encode, end_with, obey, opened
from chaos.rehearsal import gaps_filled, rehearse
from chaos.systems import SYSTEMS
from model.counterexample import Op
from model.port import Subject, Unfit

THREADS: Final = Path("/proc/self/task")
HASTE_S: Final = 30
"""How long a forked process may live before it stands still: more than its killer waits. It has no thread that could
look after its parent, since a thread costs as much as the rest of it."""

_JSON: Final = json.JSONDecoder()


def main(kind: str, path: str) -> None:
    """Serve until stdin closes; returns at once if there is nothing to serve, or if it would not be safe."""
    orders, words = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the module prints is not a word
    connections = opened()
    system = SYSTEMS[kind]
    parse = functools.lru_cache(maxsize=1)(system.parse)  # the kills of a scene are in a row, and have one operation
    try:
        module = system.load(path)
    except Unfit as problem:
        os.write(words, encode(Word("unloaded", str(problem))))
        return
    if reason := _unsafe(connections):
        os.write(words, encode(Word("unsafe", reason)))
        return
    rehearse(system.kind)
    _kept = gaps_filled()
    gc.freeze()  # a collection in a forked process would copy every page
    os.write(words, encode(Word("ready")))
    while line := _line(orders):
        order = Order(**_JSON.raw_decode(line)[0])
        subject = system.subject(module, Path(order.file))
        _serve(subject, order, parse(order.op), connections, orders, words)


def _unsafe(connections: list[sqlite3.Connection]) -> str:
    if connections:
        return f"the module opens an SQLite connection when it is imported ({len(connections)} of them)"
    if not THREADS.is_dir():
        return f"its threads cannot be counted here: there is no {THREADS}"
    threads = len(list(THREADS.iterdir())) - 1
    return f"the module starts a thread when it is imported ({threads} of them)" if threads else ""


def _line(orders: int) -> str:
    """The next order; empty when there will be none."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(orders, 65536)
        if not part:
            return ""
        line += part
    return line.decode()


def _serve(
    subject: Subject[Any, Any],
    order: Order,
    op: Op,
    connections: list[sqlite3.Connection],
    orders: int,
    words: int,
) -> None:
    pid = os.fork()
    if pid == 0:
        _live(subject, order, op, connections, orders, words)
    _, status = os.waitpid(pid, 0)  # and nothing before it: what is touched while there are two processes is copied
    os.write(words, b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))


def _live(
    subject: Subject[Any, Any],
    order: Order,
    op: Op,
    connections: list[sqlite3.Connection],
    orders: int,
    words: int,
) -> None:
    """What the forked process does; it never returns into the server, whatever the module raises."""
    pid = os.getpid()  # if the module forks, whoever says the word says who is to be killed

    def say(word: Word) -> None:
        os.write(words, b"%d %b" % (pid, encode(word)))

    def stop(word: Word) -> None:
        signal.alarm(0)
        say(word)
        end_with(orders)

    try:
        signal.alarm(HASTE_S)
        os.setsid()
        say(obey(subject, order, op, connections, stop))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - printed, as the end of an interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
