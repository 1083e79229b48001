"""How a failure reads: what differs in one line, then the program that shows it, as source to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from model import contract, events
from model.contract import (
    LOCKED,
    WORKER,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Kind,
    Odd,
    Raise,
    Ran,
    Redrive,
    Reopen,
    Reply,
    Return,
    RunOnce,
    Ticket,
)
from model.events import Apply, Consume

Op = contract.Op | events.Op


Story = Callable[[], dict[str, Any]]


class Violation(AssertionError):
    """The module under test broke the contract. Nothing else makes a verdict invalid.

    ``difference`` is one line; ``program`` is the source that leads there, a line an entry. ``steps`` is the same as
    data, where it can be: what it is a program of, then its operations, as ``model.steps`` writes them. ``origin`` says
    how the one who drew it draws it again. ``story`` makes what more there is to show, as data for the report: of the
    many that a search for a short program sees, only one is asked.
    """

    def __init__(
        self, difference: str, program: Sequence[str] = (), steps: Sequence[str] = (), *, story: Story | None = None
    ) -> None:
        super().__init__(difference)
        self.steps = tuple(steps)
        self.origin = ""
        self.difference = " ".join(line.strip() for line in difference.splitlines())
        self.program = tuple(program)
        self._story = story

    @property
    def story(self) -> dict[str, Any] | None:
        return self._story() if self._story else None

    def __str__(self) -> str:
        return "\n".join((self.difference, *(f"    {line}" for line in self.program)))


@dataclass(frozen=True, slots=True)
class Line:
    """One step of a program: the operation, the number of its connection, the reply that the module gave."""

    op: Op
    con: int
    reply: Reply


# --- source text ------------------------------------------------------------------------------------------------------

HELPERS = {
    "suppress(": ["from contextlib import suppress"],
    "die_at(": [
        "def die_at(hook, error):",
        "    def fault(name):",
        "        if name == hook: raise error()",
        "    return fault",
    ],
    "dies(": [
        "def dies(step):",
        "    if os.fork() == 0: step(OPEN); os._exit(0)",
        "    os.wait()",
    ],
    "kill_at(": [
        "def kill_at(hook):",
        "    def fault(name):",
        "        if name == hook: os.kill(os.getpid(), signal.SIGKILL)",
        "    return fault",
    ],
    "os.kill(": ["import os, signal"],
    "reader(": [
        "def reader():",
        '    con = sqlite3.connect("FILE", isolation_level=None)',
        '    con.execute("BEGIN"); con.execute("SELECT 1 FROM sqlite_master").fetchall()',
        "    return closing(con)",
    ],
    "closing(": ["from contextlib import closing"],
    "sqlite3.": ["import sqlite3"],
    "sends(": [
        "def sends(answer, *during):",
        "    def send(event):",
        "        for step in during: step(OPEN)",
        "        if isinstance(answer, BaseException): raise answer",
        "        return answer",
        "    return send",
    ],
}
"""What a program needs before it starts, by the text that needs it; a helper may need those below it.

``OPEN`` stands for the call that opens the file under test, ``FILE`` for the name of that."""

ANSWERS = {
    "ok": "True",
    "retryable": "worker.Retryable()",
    "permanent": "worker.Permanent()",
    "bad-ack": "1",
    "error": "Exception()",
}


def program(lines: Sequence[Line], kind: Kind = WORKER) -> list[str]:
    """Source that repeats ``lines``, whole enough to paste; behind each call stands what the module answered."""
    names: dict[Ticket, str] = {}
    connections = sorted({line.con for line in lines})
    body = [(f"con{number} = {opening(kind)}", "") for number in connections]
    body += [_statement(line, names, kind) for line in lines]
    width = min(88, max((len(text) for text, _ in body), default=0))
    text = [f"{text:{width}}  # {reply}" if reply else text for text, reply in body]
    return [f"import {kind.name}", *_helpers(text, kind), *text]


def opening(kind: Kind) -> str:
    """The call that opens the file under test."""
    return f'{kind.name}.{kind.opener}("{kind.file}")'


def _statement(line: Line, names: dict[Ticket, str], kind: Kind) -> tuple[str, str]:
    """One line of source and the reply it got; a claimed ticket gets a name, an error is caught."""
    if isinstance(line.op, Reopen):
        return f"con{line.con}.close(); con{line.con} = {opening(kind)}", ""
    text = source(line.op, f"con{line.con}", names)
    match line.reply:
        case Return(Ticket() as ticket):
            names[ticket] = f"t{len(names) + 1}"
            text = f"{names[ticket]} = {text}"
        case Raise():
            text = f"with suppress(BaseException): {text}"
    if isinstance(line.op, Blocked):
        text = f"with reader(){',' + text[4:] if text.startswith('with') else ': ' + text}"
    return text, show(line.reply)


def _helpers(text: Sequence[str], kind: Kind) -> list[str]:
    needed = list(text)
    for word, lines in HELPERS.items():
        if any(word in line for line in needed):
            needed = [*(line.replace("OPEN", opening(kind)).replace("FILE", kind.file) for line in lines), *needed]
    return needed[: len(needed) - len(text)]


def source(op: Op, con: str = "con1", names: Mapping[Ticket, str] | None = None) -> str:
    """The call of the module that performs ``op``; a ticket that has a name in ``names`` stands as that name."""
    match op:
        case Crash(error="SIGKILL"):
            return f"dies(lambda con: {source(op.op, 'con', names)[:-1]}, fault=kill_at({op.hook!r})))"
        case Crash():
            return f"{source(op.op, con, names)[:-1]}, fault=die_at({op.hook!r}, {op.error}))"
        case Blocked():
            return source(op.op, con, names)
        case RunOnce():
            clock = f"iter(({op.first_ms}, {op.second_ms})).__next__"
            during = [f"lambda con: {source(step, 'con', names)}" for step in op.meanwhile]
            send = f"sends({', '.join([ANSWERS[op.send], *during])})"
            return f"worker.run_once({con}, {op.owner!r}, {clock}, {send}, {op.jitter!r}, {op.lease_ms!r})"
        case Reopen():
            return f"the opening of {con} again"
        case _:
            return _call(op, con, names or {})


def _call(op: contract.Plain | events.Plain, con: str, names: Mapping[Ticket, str]) -> str:
    match op:
        case Enqueue():
            return f"worker.enqueue({con}, {{'id': {op.id!r}, 'qty': {op.qty!r}}}, {_from(op, 'now_ms')})"
        case Claim():
            return f"worker.claim({con}, {_from(op, 'owner')})"
        case Finish():
            ticket = names.get(op.ticket, _dict(op.ticket))
            return f"worker.finish({con}, {ticket}, {_from(op, 'outcome')})"
        case Redrive():
            return f"worker.redrive({con}, {_from(op, 'job_id')})"
        case Apply():
            return f"client.apply_event({con}, {_from(op, 'seq')})"
        case Consume():
            return f"client.consume_line({con}, {_from(op, 'data')})"
        case _:
            assert_never(op)


def _from(op: contract.Plain | events.Plain, first: str) -> str:
    """The arguments from ``first`` on, by position."""
    fields = list(op.__slots__)
    return ", ".join(repr(getattr(op, name)) for name in fields[fields.index(first) :])


def show(reply: Reply) -> str:
    """The reply as Python would show it: a value, or ``raises`` and the error."""
    if isinstance(reply, Raise):
        return f"raises {reply.error}"
    value = reply.value
    if isinstance(value, Odd):
        return value.text
    return _dict(value) if isinstance(value, Ticket | Ran) else repr(value)


def _dict(value: Ticket | Ran) -> str:
    return repr({name: getattr(value, name) for name in value.__slots__})


# --- what differs -----------------------------------------------------------------------------------------------------


def reply_differs(op: Op, got: Reply, want: Reply) -> str:
    """What the reply is and must be, lacking the operation in front; empty where it is right.

    Under a reader's lock an operation that has nothing to change may fail all the same: that is legal.
    """
    if got == want or (isinstance(op, Blocked) and got == LOCKED):
        return ""
    does = show(got) if isinstance(got, Raise) else f"returns {show(got)}"
    must = f"raise {want.error}" if isinstance(want, Raise) else f"return {show(want)}"
    return f"{does}, must {must}"


Rows = Any
"""The rows of a queue or of a store: a NamedTuple of tables, each a tuple of NamedTuples."""


def differences(got: Rows, want: Rows) -> str:
    """The first differing row, column by column; empty where all rows agree."""
    return next(_differing(got, want), "")


def _differing(got: Rows, want: Rows) -> Iterator[str]:
    for table, ours, theirs in zip(want._fields, got, want, strict=True):
        for mine, right in zip(ours, theirs, strict=False):
            if mine != right:
                yield f"{table} row {getattr(right, 'id', right[0])!r}: {_columns(mine, right)}"
        if len(ours) != len(theirs):
            yield f"{table} has {len(ours)} rows, must have {len(theirs)}"


def _columns(mine: Rows, right: Rows) -> str:
    pairs = zip(right._fields, mine, right, strict=True)
    return "; ".join(f"{name} is {sql(is_)}, must be {sql(must)}" for name, is_, must in pairs if is_ != must)


def sql(value: object) -> str:
    """The value of a column, as text."""
    return "NULL" if value is None else repr(value)
