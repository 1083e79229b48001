"""The event stream's contract as data: bounds, schema, rows, operations and its fault hooks.

Kinds, replies, crashes and what else it shares with the lease queue come from ``contract``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from model.contract import Blocked, Bound, Crash, Hook, Raise, Reopen, by_op, parse_one_of

BOUNDS: Final = {
    "delta": Bound(-1000, 1000),
    "line": Bound(1, 64),
    "log": Bound(1, 128),
    "limit": Bound(1, 16),
}
"""``line`` is in bytes, its LF included; ``log`` and ``limit`` in events. seq starts at 0 and cursor at -1, without an
end but that of a line."""

# --- rows -------------------------------------------------------------------------------------------------------------


class Checkpoint(NamedTuple):
    """The one row of ``checkpoint``: the last event that was processed, and the sum of all."""

    id: int = 1
    last: int = -1
    total: int = 0


class Entry(NamedTuple):
    """One row of ``ledger``: an event that was processed."""

    seq: int
    delta: int


class State(NamedTuple):
    """All rows of both tables, the ledger in the order of ``seq``."""

    checkpoint: tuple[Checkpoint, ...] = (Checkpoint(),)
    ledger: tuple[Entry, ...] = ()


# --- operations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Apply:
    """``apply_event``."""

    seq: int
    delta: int


@dataclass(frozen=True, slots=True)
class Consume:
    """``consume_line``: one line as it comes over the wire."""

    data: bytes


Plain = Apply | Consume
Op = Plain | Crash[Plain] | Blocked[Plain] | Reopen

FORMS: Final = (Apply, Consume, Crash, Blocked, Reopen)


def parse(text: str) -> Op:
    """The operation that ``text``, its ``repr``, stands for; ValueError for any other text. Nothing is executed."""
    op: Op = parse_one_of(FORMS, text)
    return op


def event_line(seq: int, delta: int) -> bytes:
    """The one line that says this event."""
    return b"EVENT %d %d\n" % (seq, delta)


def ack_line(seq: int) -> bytes:
    """What a receiver answers once it has committed the event."""
    return b"ACK %d\n" % seq


def resume_line(last: int) -> bytes:
    """What a receiver says first."""
    return b"RESUME %d\n" % last


# --- errors and fault hooks -------------------------------------------------------------------------------------------

BAD_LINE: Final = Raise("BadLine")
GAP: Final = Raise("Gap")
RESYNC_REQUIRED: Final = Raise("ResyncRequired")

FAULT_HOOKS: Final = (
    Hook("after-total", Apply, kept=False),
    Hook("after-commit", Apply, kept=True),
    Hook("after-total", Consume, kept=False),
    Hook("after-commit", Consume, kept=True),
)
"""In the order in which each operation reaches them: the stream's part of the one table."""

_HOOKS_OF: Final = by_op(FAULT_HOOKS)


def hooks_of(op: Op) -> tuple[Hook, ...]:
    """The hooks of an operation that is neither crashed nor blocked, in calling order."""
    return _HOOKS_OF.get(type(op), ())
