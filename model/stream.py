"""The receiver of the event stream as a pure function: ``step(state, op) -> (state, reply)``.

Written from the contract, not from an implementation. A state that does not change is returned as the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from model.contract import (
    CONFLICT,
    LOCKED,
    PLANTED,
    REFUSED,
    Blocked,
    Crash,
    Hook,
    Reopen,
    Reply,
    Return,
    called,
    plain,
)
from model.events import (
    BAD_LINE,
    BOUNDS,
    GAP,
    RESYNC_REQUIRED,
    Apply,
    Checkpoint,
    Consume,
    Entry,
    Op,
    Plain,
    State,
    ack_line,
    event_line,
    hooks_of,
)

Step = tuple[State, Reply]
Log = Sequence[tuple[int, int]]

EMPTY = State()
NONE, FALSE, TRUE = Return(None), Return(value=False), Return(value=True)


def step(state: State, op: Op) -> Step:
    """What ``op`` leaves behind and what it answers; total over every operation and every state that one can leave."""
    match op:
        case Apply():
            return _apply(state, op)
        case Consume():
            return _consume(state, op)
        case Crash():
            return _crash(state, op)
        case Blocked():
            after, reply = step(state, op.op)
            return (state, reply) if after is state else (state, LOCKED)
        case Reopen():
            return state, NONE
        case _:
            assert_never(op)


def hooks_reached(state: State, op: Op) -> tuple[Hook, ...]:
    """The hooks that ``op`` calls, in order: those of ``called`` if it makes its change, otherwise none."""
    return () if step(state, plain(op))[0] is state else called(op, hooks_of(plain(op)))


def last_of(state: State) -> int:
    """The seq of the last event that was processed; -1 if there was none."""
    return state.checkpoint[0].last


def parse_line(data: bytes) -> tuple[int, int] | None:
    """``(seq, delta)`` if ``data`` is a line: the one that says these numbers, and not too long; otherwise None."""
    words = data.split(b" ")
    if not BOUNDS["line"].allows(len(data)) or len(words) != 3:
        return None
    try:
        seq, delta = int(words[1]), int(words[2])
    except ValueError:
        return None
    right = event_line(seq, delta) == data and seq >= 0 and BOUNDS["delta"].allows(delta)
    return (seq, delta) if right else None


def replay(log: Log, cursor: int, limit: int) -> list[tuple[int, int]] | Reply:
    """The first ``limit`` events after ``cursor``, or the reply that there are none to be had; of values in bounds."""
    if cursor + 1 < log[0][0] or cursor > log[-1][0]:
        return RESYNC_REQUIRED
    return [event for event in log if event[0] > cursor][:limit]


# --- one function per operation ---------------------------------------------------------------------------------------


def _apply(state: State, op: Apply) -> Step:
    """The ledger is known to hold every event up to the last one: that is what any operation leaves."""
    if op.seq < 0 or not BOUNDS["delta"].allows(op.delta):
        return state, REFUSED
    (checkpoint,) = state.checkpoint
    if op.seq > checkpoint.last + 1:
        return state, GAP
    if op.seq <= checkpoint.last:
        return state, (FALSE if state.ledger[op.seq].delta == op.delta else CONFLICT)
    moved = Checkpoint(checkpoint.id, op.seq, checkpoint.total + op.delta)
    return State((moved,), (*state.ledger, Entry(op.seq, op.delta))), TRUE


def _consume(state: State, op: Consume) -> Step:
    event = parse_line(op.data)
    if event is None:
        return state, BAD_LINE
    after, reply = _apply(state, Apply(*event))
    return after, (Return(ack_line(event[0])) if isinstance(reply, Return) else reply)


def _crash(state: State, op: Crash[Plain]) -> Step:
    """A change whose COMMIT was not reached is lost whole; one whose COMMIT was reached is kept whole."""
    after, reply = step(state, op.op)
    if after is not state:
        for hook in hooks_of(op.op):
            if hook.name == op.hook:
                return (after if hook.kept else state), PLANTED
    return after, reply
