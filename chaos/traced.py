"""The process that strace traces: a server that forks a child for each order, and the child that carries it out.

strace counts system calls for each process and interferes with the N-th of a kind. The child makes as many harmless
ones of that kind beforehand as bring the chosen call of its operation to N: so one strace serves for every call.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from model import contract, events, queue, store
from model.contract import CLIENT, KINDS, WORKER, Kind, Odd, Raise, Reopen, Reply, Return
from model.port import Subject, one_line, perform

Plain = contract.Plain | events.Plain

PATIENCE_S: Final = 10
"""How long a child may live: far more than one needs on a loaded machine."""

MARK: Final = "mark"
ABSENT: Final = "absent"
"""Beside the file under test: the file whose opening says where in the trace the operation starts and ends, and a name
that no file has. Both serve for the harmless calls."""


class Order(NamedTuple):
    """On which file, which operation; and how many harmless calls of which kind go before it.

    A ``Reopen`` has no connection before it.
    """

    path: str
    op: Plain | Reopen
    syscall: str = ""
    harmless: int = 0


class Answer(NamedTuple):
    """What came of one operation; ``problem`` says what is wrong with the connection afterwards."""

    reply: Reply
    problem: str = ""


HARMLESS: Final[dict[str, Callable[[int, Path], object]]] = {
    "read": lambda file, _: os.read(file, 0),
    "pread64": lambda file, _: os.pread(file, 0, 0),
    "write": lambda file, _: os.write(file, b""),
    "pwrite64": lambda file, _: os.pwrite(file, b"", 0),
    "fsync": lambda file, _: os.fsync(file),
    "fdatasync": lambda file, _: os.fdatasync(file),
    "ftruncate": lambda file, _: os.ftruncate(file, 0),
    "unlink": lambda _, folder: (folder / ABSENT).unlink(),
    "unlinkat": lambda _, folder: (folder / ABSENT).unlink(),
    "openat": lambda _, folder: os.open(folder / ABSENT, os.O_RDONLY),
}
"""What is faulted: every system call with which SQLite reads or changes a file; and one of each kind that changes
nothing.
"""


def judged(kind: Kind, module: Path) -> Callable[[Path], Subject[Any, Any]]:
    """What the module at ``module`` is at work on the file of a path; it is imported once."""
    if kind == WORKER:
        worker = queue.load(module)
        return lambda path: queue.Queue(worker, path)
    if kind == CLIENT:
        client = store.load(module)
        return lambda path: store.Store(client, path)
    raise ValueError(f"no kind of module: {kind.name}")


def serve() -> None:
    """Fork a child for each order that comes over the socket ``argv[1]``, and send its exit status after it has ended.

    The module under test is ``argv[3]``, of the kind ``argv[2]``. It is only imported here: this process never opens a
    file of its own, since a copy of its connection would take locks and journals along.
    """
    channel, subject_on = Connection(int(sys.argv[1])), judged(KINDS[sys.argv[2]], Path(sys.argv[3]))
    with contextlib.suppress(EOFError):
        while True:
            order = channel.recv()
            if (pid := os.fork()) == 0:
                _child(subject_on(Path(order.path)), order, channel)
            channel.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _child(subject: Subject[Any, Any], order: Order, channel: Connection) -> NoReturn:
    """Perform the operation, then those that come over the channel, each on the same connection, until a None."""
    signal.alarm(PATIENCE_S)
    try:
        hand = Hand(subject)
        if not isinstance(order.op, Reopen):
            hand.perform(Reopen())
        folder = subject.path.parent
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

    def __init__(self, subject: Subject[Any, Any]) -> None:
        self._subject = subject
        self._con: sqlite3.Connection | None = None

    def perform(self, op: Plain | Reopen) -> Answer:
        """What the operation replied, and the state in which it left its connection."""
        if isinstance(op, Reopen):
            return self._open()
        if self._con is None:
            raise ValueError("no connection")
        return Answer(perform(self._subject, self._con, op), _problem(self._con))

    def _open(self) -> Answer:
        try:
            con: object = self._subject.open()
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - whatever it is, it is the module's
            # Here and now: once the error is forgotten, so is the connection, and Python closes it.
            return Answer(Raise(one_line(error)), "does not close its connection" if _connections() else "")
        if not isinstance(con, sqlite3.Connection):
            return Answer(Return(Odd(repr(con))))
        self._con = con
        return Answer(Return(None), _problem(con))


def _connections() -> list[sqlite3.Connection]:
    """All of this process that are open."""
    found = (each for each in gc.get_objects() if isinstance(each, sqlite3.Connection))
    return [con for con in found if not _is_closed(con)]


def _is_closed(con: sqlite3.Connection) -> bool:
    try:
        con.total_changes  # noqa: B018 - that it can be asked is the answer
    except sqlite3.ProgrammingError:
        return True
    return False


def _problem(con: sqlite3.Connection) -> str:
    if _is_closed(con):
        return "closes the connection that it was lent"
    return "leaves a transaction open on its connection" if con.in_transaction else ""
