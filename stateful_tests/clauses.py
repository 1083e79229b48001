"""Clauses of the contract as short programs, with their answers written by hand, and how to follow one.

The answers are literals from the page of the contract, so that they check the model as well as the module under test.
A step is an operation and its answer (and the number of its connection, where that is not 1), or what a row then holds.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from model import lease
from model.contract import (
    Claim,
    Enqueue,
    Finish,
    Op,
    Plain,
    Raise,
    Ran,
    Redrive,
    Reply,
    Return,
    RunOnce,
    State,
    Ticket,
)
from model.counterexample import show
from stateful_tests.lockstep import Lockstep


class Holds(NamedTuple):
    """What the row of one job holds now; columns that are not named may hold anything."""

    id: str
    columns: dict[str, object]


class Audited(NamedTuple):
    """All the rows of ``redrives``: id, token, at_ms, note."""

    rows: tuple[tuple[object, ...], ...]


Answer = bool | str | Ticket | Ran | Raise | None
Step = tuple[Op, Answer] | tuple[Op, Answer, int] | Holds | Audited
Program = tuple[Step, ...]


Pair = Lockstep[State, Op]


class Fixture(Protocol):
    """What the fixture ``lockstep`` gives."""

    def __call__(self, connections: int = 1) -> Pair: ...


def holds(job_id: str, **columns: object) -> Holds:
    """The row of this job holds these columns."""
    return Holds(job_id, columns)


def audited(*rows: tuple[object, ...]) -> Audited:
    """The audit consists of these rows and no other."""
    return Audited(rows)


# --- where most programs start ----------------------------------------------------------------------------------------

EARLIEST: Final = 0
LATEST: Final = 10**15 - 60_000
T: Final = Ticket("a", 5, "w", 1, 1, 100)
"""The ticket of the first claim, in every program that starts here."""

NEW: Final[Program] = ((Enqueue("a", 5, 0, 50_000), True),)
LEASED: Final[Program] = (*NEW, (Claim("w", 0, 100), T))
LAST_ATTEMPT: Final[Program] = ((Enqueue("a", 5, 0, 50_000, 1), True), (Claim("w", 0, 100), T))
STATUSES: Final[dict[str, Program]] = {
    "pending": NEW,
    "leased": LEASED,
    "pending again": (*LEASED, (Finish(T, "retry", 50, 10), "pending")),
    "done": (*LEASED, (Finish(T, "ok", 50), "done")),
    "dead": (*LEASED, (Finish(T, "permanent", 50), "dead")),
}

# --- one call of every kind -------------------------------------------------------------------------------------------

DOOMED: Final[Program] = ((Enqueue("doomed", 1, 0, 10), True),)
Scene = tuple[Program, Plain | RunOnce]
"""The rows that a call finds, and the call."""

CHANGES: Final[dict[str, tuple[Program, Plain]]] = {
    "enqueue of a new job": ((), Enqueue("a", 5, 0, 50_000)),
    "claim of a new job": ((*DOOMED, *NEW), Claim("w", 10, 100)),
    "claim of an expired job": ((*LEASED, *DOOMED), Claim("x", 100, 100)),
    "claim that only buries": (DOOMED, Claim("w", 10)),
    "finish with ok": (LEASED, Finish(T, "ok", 50)),
    "finish with retry": (LEASED, Finish(T, "retry", 50, 5)),
    "finish with permanent": (LEASED, Finish(T, "permanent", 50)),
    "redrive": (STATUSES["dead"], Redrive("a", 60, 100, "n")),
}
"""What writes; the doomed job makes a claim write more than one row."""

NO_CHANGES: Final[dict[str, tuple[Program, Plain]]] = {
    "enqueue of a known job": (NEW, Enqueue("a", 5, 0, 9)),
    "enqueue in conflict": (NEW, Enqueue("a", 6, 0, 9)),
    "claim of nothing": (LEASED, Claim("x", 50)),
    "finish of nothing": (LEASED, Finish(T, "ok", 100)),
    "redrive of nothing": (LEASED, Redrive("a", 60, 100, "n")),
}
CALLS: Final[dict[str, tuple[Program, Plain]]] = {**CHANGES, **NO_CHANGES}
EVERY_CALL: Final[dict[str, Scene]] = {
    **CALLS,
    "run_once": (NEW, RunOnce("w", 0, 1)),
    "run_once of nothing": (LEASED, RunOnce("w", 0, 1)),
}

# --- following one ----------------------------------------------------------------------------------------------------


def follow(pair: Pair, program: Program) -> None:
    """Perform the program on module and model; where the model itself gives another answer, the harness is broken."""
    for step in program:
        if isinstance(step, Holds | Audited):
            _check_state(pair.state, step)
            continue
        op, answer, con = (*step, 1)[:3]
        _, reply = lease.step(pair.state, op)
        want: Reply = answer if isinstance(answer, Raise) else Return(answer)
        if reply != want:
            raise RuntimeError(f"{op}: the model says {show(reply)}, the clause {show(want)}")
        pair.do(op, con)


def _check_state(state: State, step: Holds | Audited) -> None:
    """The model's rows, which the module's equal by now, against the literal ones."""
    if isinstance(step, Audited):
        held: object = tuple((row.id, row.token, row.at_ms, row.note) for row in state.redrives)
        wanted: object = step.rows
    else:
        row = next(job for job in state.jobs if job.id == step.id)
        held, wanted = {name: getattr(row, name) for name in step.columns}, step.columns
    if held != wanted:
        raise RuntimeError(f"the model holds {held}, the clause says {wanted}")
