"""Clauses of the event stream's contract as short programs, with their answers written by hand, and how to follow one.

As in ``clauses``, the answers are literals, so that they check the model as well as the module under test. A step is an
operation and its answer (and the number of its connection, where that is not 1), or what the store then holds.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from model import stream
from model.contract import CONFLICT, Raise, Reply, Return
from model.counterexample import show
from model.events import BAD_LINE, GAP, Apply, Consume, Op, Plain, State
from stateful_tests.lockstep import Lockstep


class Keeps(NamedTuple):
    """What the checkpoint says, and every row of the ledger."""

    last: int
    total: int
    ledger: tuple[tuple[int, int], ...]


Answer = bool | bytes | Raise
Step = tuple[Op, Answer] | tuple[Op, Answer, int] | Keeps
Program = tuple[Step, ...]


StorePair = Lockstep[State, Op]


class StoreFixture(Protocol):
    """What the fixture ``store_lockstep`` gives."""

    def __call__(self, connections: int = 1) -> StorePair: ...


# --- one call of every kind -------------------------------------------------------------------------------------------

EVENTS: Final = ((0, 7), (1, -3), (2, 0), (3, 1000), (4, -1000))
FIVE: Final = tuple(Apply(*event) for event in EVENTS)
"""Five events, with the ends of delta and a 0 among them: last is 4, total is 4."""

Scene = tuple[tuple[Plain, ...], Plain]
"""What a call finds, and the call."""

CHANGES: Final[dict[str, Scene]] = {
    "apply_event of the first": ((), Apply(0, 7)),
    "apply_event of the next": (FIVE, Apply(5, -11)),
    "consume_line of the first": ((), Consume(b"EVENT 0 7\n")),
    "consume_line of the next": (FIVE, Consume(b"EVENT 5 -11\n")),
}
KNOWN: Final[dict[str, Scene]] = {
    "apply_event of the last again": (FIVE, Apply(4, -1000)),
    "apply_event of the first again": (FIVE, Apply(0, 7)),
    "consume_line of the last again": (FIVE, Consume(b"EVENT 4 -1000\n")),
    "consume_line of the first again": (FIVE, Consume(b"EVENT 0 7\n")),
}
FAILING: Final[dict[str, tuple[tuple[Plain, ...], Plain, Raise]]] = {
    "apply_event in conflict": (FIVE, Apply(1, 3), CONFLICT),
    "apply_event after a gap": (FIVE, Apply(6, 1), GAP),
    "consume_line in conflict": (FIVE, Consume(b"EVENT 1 3\n"), CONFLICT),
    "consume_line after a gap": (FIVE, Consume(b"EVENT 6 1\n"), GAP),
    "consume_line of a bad line": (FIVE, Consume(b"EVENT 5 1\r\n"), BAD_LINE),
}
NO_CHANGES: Final[dict[str, Scene]] = {
    **KNOWN,
    **{name: (program, op) for name, (program, op, _) in FAILING.items()},
}
CALLS: Final[dict[str, Scene]] = {**CHANGES, **NO_CHANGES}

# --- following one ----------------------------------------------------------------------------------------------------


def follow(pair: StorePair, program: Program) -> None:
    """Perform the program on module and model; where the model itself gives another answer, the harness is broken."""
    for step in program:
        if isinstance(step, Keeps):
            _check_state(pair.state, step)
            continue
        op, answer, con = (*step, 1)[:3]
        _, reply = stream.step(pair.state, op)
        want: Reply = answer if isinstance(answer, Raise) else Return(answer)
        if reply != want:
            raise RuntimeError(f"{op}: the model says {show(reply)}, the clause {show(want)}")
        pair.do(op, con)


def prepare(pair: StorePair, program: tuple[Plain, ...]) -> None:
    """Perform the operations on both, whatever the answers are."""
    for op in program:
        pair.do(op)


def _check_state(state: State, step: Keeps) -> None:
    """The model's rows, which the module's equal by now, against the literal ones."""
    (checkpoint,) = state.checkpoint
    held = Keeps(checkpoint.last, checkpoint.total, tuple((row.seq, row.delta) for row in state.ledger))
    if held != step:
        raise RuntimeError(f"the model holds {held}, the clause says {step}")
