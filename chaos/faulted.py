"""One experiment: fault one system call of one operation, and let a fresh connection say what it left."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.experiments import free_at
from chaos.files import FILES, Files, Left, look
from chaos.traced import Answer
from chaos.tracer import FAULTS, Call, Tracer, ordinal
from model import lease
from model.contract import Claim, Enqueue, Odd, Plain, Raise, Reopen, Reply, Return, State
from model.counterexample import Line, Violation, program, show, source
from model.port import connect, one_line, perform
from model.queue import Queue


@dataclass(frozen=True, slots=True)
class Case:
    """The operations that prepare a queue, and the one that is then faulted; a ``Reopen`` is a call of ``open_queue``.

    Without any setup there is no file. ``hot``: somebody has died and left a journal that must be rolled back.
    """

    name: str
    setup: tuple[Plain, ...]
    op: Plain | Reopen
    hot: bool = False

    @property
    def function(self) -> str:
        return "open_queue" if isinstance(self.op, Reopen) else type(self.op).__name__.lower()


HOT: Final = (
    "PRAGMA page_size = 512",
    "VACUUM",
    "PRAGMA cache_size = 1",
    "BEGIN IMMEDIATE",
    "UPDATE jobs SET qty = qty + 1",
)
"""On pages so small and with a cache so small that the change is in the file before its COMMIT, which never comes."""

CLEAR: Final = ("OperationalError: ", "DatabaseError: ")
UNCLEAR: Final = ("rollback", "transaction", "closed")
"""What SQLite says of a disk that fails, and never says of it: those are errors of the handling of the first error."""

_FIRST_USE: Final = Enqueue("new", 1, 100, 50_000)
"""What is done with a queue that was only opened."""

# --- before the fault -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case after its setup: the files to start from, and what the operation may leave of them.

    ``reply`` is what it must reply if it succeeds; ``lines`` are the setup.
    """

    case: Case
    queue: Queue
    start: Files
    before: Left
    after: Left
    reply: Reply
    lines: Sequence[Line]


def prepare(case: Case, queue: Queue) -> Prepared:
    """Perform the setup in this process; replies and rows must be the model's."""
    Files().put(queue.path.parent)
    lines: list[Line] = []
    state = lease.EMPTY
    try:
        if case.setup:
            with opened(queue) as con:
                for op in case.setup:
                    state = stepped(lines, op, perform(queue, con, op), state)
        before = look(queue.path)
        agree(before.differs(Left(before.schema, state)))
        start = _heated(queue) if case.hot else Files.of(queue.path.parent)
        with opened(queue):
            schema = look(queue.path).schema
    except Differs as problem:
        raise Violation(f"before any fault ({case.name}): {problem}", program(lines)) from None
    after, reply = lease.step(state, case.op)
    return Prepared(case, queue, start, before, Left(schema, after), reply, lines)


def _heated(queue: Queue) -> Files:
    """The files as somebody leaves them who dies after a part of his change has gone from the cache to the file."""
    with contextlib.closing(connect(queue.path)) as con:
        for sql in HOT:
            con.execute(sql).close()
        return Files.of(queue.path.parent)


# --- what must agree --------------------------------------------------------------------------------------------------


class Differs(Exception):
    """The module did something else than the model; one line says what."""


def agree(difference: str) -> None:
    """Differs with these words, if there are any."""
    if difference:
        raise Differs(difference)


def stepped(lines: list[Line], op: Plain, got: Reply, state: State) -> State:
    """The model's state after ``op``, to which the module replied ``got``, and which is one line more."""
    state, want = lease.step(state, op)
    lines.append(Line(op, 1, got))
    agree("" if got == want else f"{source(op)}: {show(got)}, must be {show(want)}")
    return state


@contextlib.contextmanager
def opened(queue: Queue) -> Iterator[sqlite3.Connection]:
    """A connection from the module's ``open_queue`` in this process."""
    try:
        con = queue.worker.open_queue(queue.path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        raise Differs(f"worker.open_queue raises {one_line(error)}") from None
    with contextlib.closing(con):
        yield con


# --- one call ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """One call of one case. ``traced`` are the steps of the process with the fault, ``later`` those after its death."""

    prepared: Prepared
    tracer: Tracer
    call: Call
    traced: list[Line] = field(default_factory=list)
    later: list[Line] = field(default_factory=list)

    def run(self) -> None:
        case = self.prepared.case
        heard = self.tracer.start(case.op, self.call)
        try:
            if heard is None:
                self._after_death()
            else:
                self._after_error(heard)
        except Differs as problem:
            call = f"{self.tracer.fault} at the {ordinal(self.call.nth)} {self.call.syscall}"
            difference = f"after {call} of {case.function} ({case.name}): {problem}"
            raise Violation(difference, self._program()) from None

    # --- after a death ------------------------------------------------------------------------------------------------

    def _after_death(self) -> None:
        """A copy of the files is looked at: the journal, if it is hot, is for the module to roll back."""
        self.traced.append(Line(self.prepared.case.op, 1, Return(Odd("killed"))))
        left = self._which(look(self._copy()))
        self._live_on(left.rows, *self._next(left.rows))

    def _which(self, left: Left) -> Left:
        """The state before the operation or the one after it, whichever is left."""
        before, after = self.prepared.before, self.prepared.after
        lost, kept = left.differs(before), left.differs(after)
        agree(lost and kept and (lost if lost == kept else f"not as before ({lost}), nor as after ({kept})"))
        return after if lost else before

    # --- after an error -----------------------------------------------------------------------------------------------

    def _after_error(self, answer: Answer) -> None:
        """The call succeeds whole or fails whole, with a clear error, and its connection is as good as before."""
        case, path = self.prepared.case, self.prepared.queue.path
        self.traced.append(Line(case.op, 1, answer.reply))
        agree(self._unlike(answer.reply))
        does, failed = _does(case.op, answer.reply), isinstance(answer.reply, Raise)
        agree(answer.problem and f"{does} and {answer.problem}")
        want = self.prepared.before if failed else self.prepared.after
        unopened = failed and isinstance(case.op, Reopen)
        difference = look(self._copy() if unopened else path, writing=True).differs(want)
        agree(difference and f"{does}, but {difference}")
        if unopened:
            self._reopen()
        again, *others = self._next(want.rows)
        state = stepped(self.traced, again, self.tracer.ask(again).reply, want.rows)
        self.tracer.dismiss()
        self._live_on(state, *others)

    def _unlike(self, reply: Reply) -> str:
        if isinstance(reply, Raise):
            clear = reply.error.startswith(CLEAR) and not any(word in reply.error for word in UNCLEAR)
            return "" if clear else f"raises {reply.error}, must raise the sqlite3 error that the disk has caused"
        want = self.prepared.reply
        return (
            ""
            if reply == want
            else f"{_does(self.prepared.case.op, reply)}, must return {show(want)} or raise the error of the disk"
        )

    def _reopen(self) -> None:
        reply = self.tracer.ask(Reopen()).reply
        self.traced.append(Line(Reopen(), 1, reply))
        agree(f"{_does(Reopen(), reply)} once the disk works again" if isinstance(reply, Raise) else "")

    # --- both ---------------------------------------------------------------------------------------------------------

    def _copy(self) -> Path:
        """The files, put elsewhere, so that a look at them is not the first thing to happen to them."""
        folder = self.tracer.folder
        return Files.of(folder).put(folder / "copy")

    def _live_on(self, state: State, *ops: Plain) -> None:
        """The operations in this process, over a connection of their own; nothing else must be in the file then."""
        queue = self.prepared.queue
        with opened(queue) as con:
            for op in ops:
                state = stepped(self.later, op, perform(queue, con, op), state)
        agree(look(queue.path, writing=True).differs(Left(self.prepared.after.schema, state)))

    def _next(self, state: State) -> Iterator[Plain]:
        """The operation once more, then a claim by somebody else: all as if nothing had happened."""
        op = self.prepared.case.op
        again = _FIRST_USE if isinstance(op, Reopen) else op
        yield again
        after, _ = lease.step(state, again)
        yield Claim("next", free_at(after, again.now_ms))

    def _program(self) -> list[str]:
        """The processes one after the other: each is a program to paste, or to feed into the command above it."""
        file, kind = self.call.file, self.call.syscall
        path = f'"$PWD/{file}"' if file in FILES else '"$PWD"'
        inject = f"-e trace={kind} -e inject={kind}:{FAULTS[self.tracer.fault]}:when={self.call.nth_on_file}"
        first = program(self.prepared.lines) if self.prepared.lines else []
        if self.prepared.case.hot:
            first += [*(f'con1.execute("{sql}")' for sql in HOT), "import os; os._exit(1)"]
        last = ["# then, in a process of its own: python", *program(self.later)] if self.later else []
        return [
            *first,
            f"# then, in a process of its own: strace -f -P {path} {inject} python",
            *_retold(self.traced),
            *last,
        ]


def _does(op: Plain | Reopen, reply: Reply) -> str:
    if isinstance(reply, Raise):
        return show(reply)
    return f"returns {'a connection' if isinstance(op, Reopen) else show(reply)}"


def _retold(lines: Sequence[Line]) -> Iterator[str]:
    """As ``program``, where the first call of ``open_queue`` may be the operation itself."""
    first, others = lines[0], [line for line in lines if not isinstance(line.op, Reopen)]
    opening = f'con1 = worker.open_queue("queue.db")  # {show(first.reply)}'
    if not isinstance(first.op, Reopen):
        yield from program(lines)
    elif isinstance(first.reply, Raise):
        yield from ("import worker", "from contextlib import suppress", f"with suppress(BaseException): {opening}")
        yield from program(others) if len(lines) > 1 else ()
    else:
        yield from program(others) if others else ("import worker", opening)
