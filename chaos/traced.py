"""The process that strace traces: a server that forks a child for each order, and the child that carries it out.

strace counts system calls for each process and interferes with the N-th of a kind. The child makes as many harmless
ones of that kind beforehand as bring the chosen call of its operation to N: so one strace serves for every call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from model.contract import Plain, Raise, Reopen, Reply, Return
from model.port import one_line, perform
from model.queue import Queue, load

PATIENCE_S: Final = 10
"""How long a child may live: far more than one needs on a loaded machine."""

MARK: Final = "mark"
ABSENT: Final = "absent"
"""Beside the queue file: the file whose opening says where in the trace the operation starts and ends, and a name
that no file has. Both serve for the harmless calls."""


class Order(NamedTuple):
    """Which queue file, which operation; and how many harmless calls of which kind go before it.

    A ``Reopen`` has no connection before it.
    """

    queue: str
    op: Plain | Reopen
    syscall: str = ""
    harmless: int = 0


class Answer(NamedTuple):
    """What came of one operation; ``problem`` says what is wrong with the connection afterwards."""

    reply: Reply
    problem: str = ""


HARMLESS: Final[dict[str, Callable[[int, Path], object]]] = {
    "write": lambda file, _: os.write(file, b""),
    "pwrite64": lambda file, _: os.pwrite(file, b"", 0),
    "fsync": lambda file, _: os.fsync(file),
    "fdatasync": lambda file, _: os.fdatasync(file),
    "ftruncate": lambda file, _: os.ftruncate(file, 0),
    "unlink": lambda _, folder: (folder / ABSENT).unlink(),
    "unlinkat": lambda _, folder: (folder / ABSENT).unlink(),
    "openat": lambda _, folder: os.open(folder / ABSENT, os.O_RDONLY),
}
"""What is faulted: every system call with which SQLite changes a file; and one of each kind that changes nothing."""


def serve() -> None:
    """Fork a child for each order that comes over the socket ``argv[1]``, and send its exit status after it has ended.

    The module under test is ``argv[2]``. It is only imported here: this process never opens a queue, since a copy of
    its connection would take locks and journals along.
    """
    channel, worker = Connection(int(sys.argv[1])), load(sys.argv[2])
    with contextlib.suppress(EOFError):
        while True:
            order = channel.recv()
            if (pid := os.fork()) == 0:
                _child(Queue(worker, Path(order.queue)), order, channel)
            channel.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _child(queue: Queue, order: Order, channel: Connection) -> NoReturn:
    """Perform the operation, then those that come over the channel, each on the same connection, until a None."""
    signal.alarm(PATIENCE_S)
    try:
        hand = Hand(queue)
        if not isinstance(order.op, Reopen):
            hand.perform(Reopen())
        folder = queue.path.parent
        mark = os.open(folder / MARK, os.O_RDWR)
        for _ in range(order.harmless):
            with contextlib.suppress(OSError):
                HARMLESS[order.syscall](mark, folder)
        answer = hand.perform(order.op)
        os.open(folder / MARK, os.O_RDWR)
        channel.send(answer)
        while op := channel.recv():
            channel.send(hand.perform(op))
        os._exit(0)
    except EOFError:
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - nothing of the child may get into the server
        os.write(2, f"{one_line(error)}\n".encode())
        os._exit(1)


class Hand:
    """The module under test, and the one connection that its operations borrow."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._con: sqlite3.Connection | None = None

    def perform(self, op: Plain | Reopen) -> Answer:
        """What the operation replied, and the state in which it left its connection."""
        if isinstance(op, Reopen):
            reply = self._open()
            return Answer(reply, "leaves the file open" if isinstance(reply, Raise) and self._is_open() else "")
        if self._con is None:
            raise ValueError("no connection")
        return Answer(perform(self._queue, self._con, op), self._problem(self._con))

    def _open(self) -> Reply:
        try:
            self._con = self._queue.worker.open_queue(self._queue.path)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            return Raise(one_line(error))
        return Return(None)

    def _is_open(self) -> bool:
        return any(entry.resolve() == self._queue.path.resolve() for entry in Path("/proc/self/fd").iterdir())

    @staticmethod
    def _problem(con: sqlite3.Connection) -> str:
        try:
            return "leaves a transaction open on its connection" if con.in_transaction else ""
        except sqlite3.ProgrammingError:
            return "closes the connection that it was lent"
