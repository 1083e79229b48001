"""One experiment: fault one system call of one operation, and let a fresh connection say what it left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.files import SUFFIXES, Files, Left, look
from chaos.killer import Unanswered
from chaos.prepared import Differs, Prepared, agree, opened, stepped
from chaos.sequels import sequel
from chaos.traced import Answer, Plain
from chaos.tracer import FAULTS, Call, Tracer, ordinal
from model.contract import Kind, Odd, Raise, Reopen, Reply, Return
from model.counterexample import Line, Violation, opening, program, show
from model.port import perform

CLEAR: Final = ("OperationalError: ", "DatabaseError: ")
UNCLEAR: Final = ("rollback", "transaction", "closed")
"""What SQLite says of a disk that fails, and never says of it: those are errors of the handling of the first error."""

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
            with contextlib.suppress(Unanswered):
                self.tracer.dismiss()
            call = f"{self.tracer.fault} at the {ordinal(self.call.nth)} {self.call.syscall}"
            difference = f"after {call} of {self.prepared.function} ({case.name}): {problem}"
            raise Violation(difference, self._program()) from None

    # --- after a death ------------------------------------------------------------------------------------------------

    def _after_death(self) -> None:
        """A copy of the files is looked at: the journal, if it is hot, is for the module to roll back."""
        self.traced.append(Line(self.prepared.case.op, 1, Return(Odd("killed"))))
        left = self._which(look(self.prepared.subject, self._copy()))
        state = self._whole(left)
        self._live_on(state, *self._next(state))

    def _which(self, left: Left) -> Left:
        """The state before the operation or the one after it, whichever is left."""
        before, after = self.prepared.before, self.prepared.after
        lost, kept = left.differs(before), left.differs(after)
        agree(lost and kept and (lost if lost == kept else f"not as before ({lost}), nor as after ({kept})"))
        return after if lost else before

    def _whole(self, left: Left) -> Any:  # noqa: ANN401 - the model's state
        """The state once the file has been opened."""
        return self.prepared.after.rows if isinstance(self.prepared.case.op, Reopen) else left.rows

    # --- after an error -----------------------------------------------------------------------------------------------

    def _after_error(self, answer: Answer) -> None:
        """The call succeeds whole or fails whole, with a clear error, and its connection is as good as before."""
        prepared, op = self.prepared, self.prepared.case.op
        self.traced.append(Line(op, 1, answer.reply))
        agree(self._unlike(answer.reply))
        does, failed = _does(op, answer.reply), answer.reply != prepared.reply
        agree(answer.problem and f"{does} and {answer.problem}")
        want = prepared.before if failed else prepared.after
        unopened = failed and isinstance(op, Reopen)
        left = look(prepared.subject, self._copy() if unopened else prepared.subject.path, writing=True)
        difference = left.differs(want)
        agree(difference and f"{does}, but {difference}")
        if unopened:
            self._reopen()
        again, *others = self._next(self._whole(want))
        reply = self.tracer.ask(again).reply
        state = stepped(prepared.subject, self.traced, again, reply, self._whole(want))
        self.tracer.dismiss()
        self._live_on(state, *others)

    def _unlike(self, reply: Reply) -> str:
        want = self.prepared.reply
        if reply == want:
            return ""
        if isinstance(reply, Raise):
            clear = reply.error.startswith(CLEAR) and not any(word in reply.error for word in UNCLEAR)
            return "" if clear else f"raises {reply.error}, must raise the sqlite3 error that the disk has caused"
        op = self.prepared.case.op
        must = f"raise {want.error}" if isinstance(want, Raise) else _does(op, want).replace("returns", "return", 1)
        return f"{_does(op, reply)}, must {must} or raise the error of the disk"

    def _reopen(self) -> None:
        reply = self.tracer.ask(Reopen()).reply
        self.traced.append(Line(Reopen(), 1, reply))
        agree("" if reply == self.prepared.reply else f"{_does(Reopen(), reply)} once the disk works again")

    # --- both ---------------------------------------------------------------------------------------------------------

    def _copy(self) -> Path:
        """The files, put elsewhere, so that a look at them is not the first thing to happen to them."""
        path = self.prepared.subject.path
        return Files.of(path).put(path.parent / "copy" / path.name)

    def _live_on(self, state: Any, *ops: Plain) -> None:  # noqa: ANN401 - the model's
        """The operations in this process, over a connection of their own; nothing else must be in the file then."""
        subject = self.prepared.subject
        with opened(subject) as con:
            for op in ops:
                state = stepped(subject, self.later, op, perform(subject, con, op), state)
        agree(look(subject, subject.path, writing=True).differs(Left(self.prepared.after.schema, state)))

    def _next(self, state: Any) -> Iterator[Plain]:  # noqa: ANN401 - the model's
        return sequel(self.prepared.kind, state, self.prepared.case.op)

    def _program(self) -> list[str]:
        """The processes one after the other: each is a program to paste, or to feed into the command above it."""
        kind, call = self.prepared.kind, self.call
        path = f'"$PWD/{call.file}"' if call.file.removeprefix(kind.file) in SUFFIXES else '"$PWD"'
        inject = f"-e inject={call.syscall}:{FAULTS[self.tracer.fault]}:when={call.nth_on_file}"
        last = ["# then, in a process of its own: python", *program(self.later, kind)] if self.later else []
        return [
            *self.prepared.program(),
            f"# then, in a process of its own: strace -f -P {path} -e trace={call.syscall} {inject} python",
            *_retold(self.traced, kind),
            *last,
        ]


def _does(op: Plain | Reopen, reply: Reply) -> str:
    if isinstance(reply, Raise):
        return show(reply)
    opened_it = isinstance(op, Reopen) and reply == Return(None)
    return f"returns {'a connection' if opened_it else show(reply)}"


def _retold(lines: Sequence[Line], kind: Kind) -> Iterator[str]:
    """As ``program``, where the first call of the opener may be the operation itself."""
    first, others = lines[0], [line for line in lines if not isinstance(line.op, Reopen)]
    call = f"con1 = {opening(kind)}  # {show(first.reply)}"
    if not isinstance(first.op, Reopen):
        yield from program(lines, kind)
    elif isinstance(first.reply, Raise):
        yield from (f"import {kind.name}", "from contextlib import suppress", f"with suppress(BaseException): {call}")
        yield from program(others, kind) if len(lines) > 1 else ()
    else:
        yield from program(others, kind) if others else (f"import {kind.name}", call)
