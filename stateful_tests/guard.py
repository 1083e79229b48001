"""The module under test behind a guard: what it does wrong becomes a Violation that carries the calls so far."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from model import contract, events, steps
from model.contract import Raise, Reply, RunOnce
from model.counterexample import Op, Violation, differences, show, source
from model.port import Subject, connect, one_line, perform
from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests.clauses import Audited, Holds, Program

PLANTED_TEXT = "planted"
"""The text of an interrupt that a check raises itself; any other one is the user's."""


S = TypeVar("S")
O = TypeVar("O", bound=Op)  # noqa: E741 - the operations, as S the states


class Guard(Generic[S, O]):
    """One file and a connection to it from the module's opener; every call is written down.

    Only a Violation makes a verdict invalid, so nothing that the module raises may get past here unnamed.
    ``kept_open`` is how many descriptors of the file ``watched`` were open when the last error arrived.
    """

    def __init__(self, subject: Subject[S, O], did: Counter[str]) -> None:
        self.subject, self.path, self.did = subject, subject.path, did
        self.lines: list[str] = []
        self.watched: Path | None = None
        self.kept_open = 0
        self._stack = contextlib.ExitStack()
        self.con = self.open(self.path)
        self.other = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- connections --------------------------------------------------------------------------------------------------

    def open(self, path: object) -> sqlite3.Connection:
        """A connection from the module's opener, closed after the check."""
        con: sqlite3.Connection = self.call(self.subject.kind.opener, path)
        self.lines[-1] = f"con1 = {self.lines[-1]}"
        self._stack.callback(con.close)
        return con

    def connect(self) -> sqlite3.Connection:
        """A connection of the harness that waits for nobody, closed after the check."""
        con = self._stack.enter_context(contextlib.closing(connect(self.path)))
        con.execute("PRAGMA busy_timeout = 0").close()
        return con

    def rows(self) -> S:
        """Every row, as another connection sees it."""
        try:
            return self.subject.observe(self.other)
        except sqlite3.OperationalError as error:
            self.fail(f"the file is left so that another connection cannot read: {error}")

    # --- calls --------------------------------------------------------------------------------------------------------

    def attempt(self, name: str, *args: object, **named: object) -> tuple[Any, BaseException | None]:
        """What the function returned, or what it raised."""
        self.lines.append(f"{self.subject.kind.name}.{name}({_arguments(args, named)})")
        steps.note(self.lines[-1])
        self.did["calls"] += 1
        try:
            return getattr(self.subject.module, name)(*args, **named), None
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - every error is judged
            return None, self._bare(error)
        except KeyboardInterrupt as error:
            if error.args != (PLANTED_TEXT,):
                raise
            return None, self._bare(error)

    def _bare(self, error: BaseException) -> BaseException:
        """The error without its frames: what is not closed they keep open, and a half-read cursor keeps its lock."""
        self.kept_open = descriptors(self.watched) if self.watched else 0
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__context__
        return error

    def call(self, name: str, *args: object, **named: object) -> Any:  # noqa: ANN401 - each function has its own
        """What the function returns; whatever it raises is a Violation."""
        result, error = self.attempt(name, *args, **named)
        if error is not None:
            self.fail(f"{self.lines[-1]} raises {one_line(error)}, must return")
        return result

    def refused(self, error: type[Exception], name: str, *args: object, **named: object) -> BaseException:
        """The error, which must be of this type, that the call raises."""
        result, raised = self.attempt(name, *args, **named)
        if not isinstance(raised, error):
            does = f"raises {one_line(raised)}" if raised else f"returns {result!r}"
            self.fail(f"{self.lines[-1]} {does}, must raise {error.__name__}")
        return raised

    def raises(self, planted: BaseException, name: str, *args: object, **named: object) -> None:
        """The call must end in this very object."""
        result, raised = self.attempt(name, *args, **named)
        if raised is not planted:
            does = f"raises {one_line(raised)}" if raised else f"returns {result!r}"
            self.fail(f"{self.lines[-1]} {does}, must raise the very {type(planted).__name__} that it was given")

    def raises_once(self, planted: BaseException, hook: str, name: str, *args: object) -> None:
        """The call must end in the error that its hook raises at the first time, and not call it a second time."""
        called: list[str] = []

        def fault(reached: str) -> None:
            called.append(reached)
            if reached == hook and called.count(hook) == 1:
                raise planted

        self.raises(planted, name, *args, fault)
        self.expect(called.count(hook) == 1, f"{self.lines[-1]} calls its hooks {called}, must call each once")

    def do(self, op: O, con: sqlite3.Connection | None = None) -> Reply:
        """The reply to one operation, on the connection from the module's opener unless another is lent."""
        self.lines.append(source(op))
        self.did["calls"] += 1
        return perform(self.subject, con or self.con, op)

    def must(self, op: O, *replies: Reply, con: sqlite3.Connection | None = None) -> None:
        """The operation must give one of these replies."""
        if (got := self.do(op, con)) not in replies:
            does = show(got) if isinstance(got, Raise) else f"returns {show(got)}"
            self.fail(f"{source(op)} {does}, must {' or '.join(map(_must, replies))}")

    # --- what must hold -----------------------------------------------------------------------------------------------

    def expect(self, holds: object, difference: str) -> None:
        """A Violation with these words unless it holds."""
        if not holds:
            self.fail(difference)

    def unchanged(self, before: S) -> None:
        """The last call changed no row and left no transaction open."""
        if difference := differences(self.rows(), before):
            self.fail(f"{self.lines[-1]} must change nothing, but {difference}")
        self.idle(self.con)

    def idle(self, con: sqlite3.Connection) -> None:
        """The last call left no transaction open on ``con``, so that another connection can write at once."""
        self.expect(not self.in_transaction(con), f"{self.lines[-1]} leaves a transaction open on its connection")
        with contextlib.closing(self.connect()) as writer:
            try:
                writer.execute("BEGIN EXCLUSIVE").close()
            except sqlite3.OperationalError as error:
                self.fail(f"after {self.lines[-1]} another connection cannot write: {error}")
            writer.execute("ROLLBACK").close()

    def in_transaction(self, con: sqlite3.Connection) -> bool:
        """Whether a transaction is open on ``con``, which must not be closed."""
        try:
            return con.in_transaction
        except sqlite3.ProgrammingError:
            self.fail(f"{self.lines[-1]} closes the connection that it was lent")

    def fail(self, difference: str) -> NoReturn:
        raise Violation(difference, [f"import {self.subject.kind.name}", *self.lines])


class QueueGuard(Guard[contract.State, contract.Plain | RunOnce]):
    """A lease queue under test."""

    def __init__(self, worker: Worker, path: Path, did: Counter[str]) -> None:
        self.worker = worker
        super().__init__(Queue(worker, path), did)

    def prepare(self, program: Program) -> contract.State:
        """The rows that the program leaves; its answers are judged where it is a clause."""
        for step in program:
            if not isinstance(step, Holds | Audited) and isinstance(step[0], contract.Plain | RunOnce):
                self.do(step[0])
        return self.rows()


class StoreGuard(Guard[events.State, events.Plain]):
    """A receiver of an event stream under test."""

    def __init__(self, client: Client, path: Path, did: Counter[str]) -> None:
        self.client = client
        super().__init__(Store(client, path), did)

    def prepare(self, program: Iterable[events.Plain]) -> events.State:
        """The rows that the operations leave; their answers are judged where they are a clause."""
        for op in program:
            self.do(op)
        return self.rows()


def _must(reply: Reply) -> str:
    return f"raise {reply.error}" if isinstance(reply, Raise) else f"return {show(reply)}"


def _arguments(args: tuple[object, ...], named: dict[str, object]) -> str:
    return ", ".join([*map(_text, args), *(f"{name}={_text(value)}" for name, value in named.items())])


def _text(value: object) -> str:
    """Source for an argument where there is some, shortened where it is long."""
    if isinstance(value, sqlite3.Connection):
        return "con1"
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    text = repr(value.name) if isinstance(value, Path) else number(value) if type(value) is int else repr(value)
    return text if len(text) <= 160 else f"{text[:120]}... ({len(text)} characters)"


@contextlib.contextmanager
def writing(path: Path, *statements: str) -> Iterator[None]:
    """Another connection has begun to write to the file, and commits a tenth of a second later."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as con:
        for statement in ("BEGIN IMMEDIATE", *statements):
            con.execute(statement).close()
        holder = threading.Timer(0.1, con.commit)
        holder.start()
        try:
            yield
        finally:
            holder.join()


def descriptors(path: Path) -> int:
    """How many descriptors of this process are open on the file."""
    wanted, count = path.stat() if path.exists() else None, 0
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            count += wanted is not None and os.path.samestat(os.fstat(int(entry.name)), wanted)
    return count


E = TypeVar("E", bound=BaseException)


def planted_error(kind: type[E]) -> E:
    """An error to plant, made without the arguments that a class of the module's may ask for."""
    return kind.__new__(kind, PLANTED_TEXT)


def number(value: int) -> str:
    """Source for an int; a large power of ten as one."""
    power = round(math.log10(value)) if value > 10**30 else 0
    return f"10**{power}" if power and 10**power == value else repr(value)
