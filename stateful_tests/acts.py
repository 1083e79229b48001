"""Sessions with an unfair publisher, as data: what it sends, and how, without a single seq.

Which events there are to send depends on what the store holds when their turn comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from model import stream
from model.contract import parse_one_of
from model.events import FAULT_HOOKS, State, event_line

Kind = Literal["next", "again", "other", "gap", "bad", "long"]
Flow = Literal["held", "sent", "cut", "heard"]
Ending = Literal["half-close", "close", "reset", "fragment"]

SESSIONS_OF_CLIENT: Final = "client sessions"
"""What a program of these is called where it is written down."""

DELTAS: Final = (7, 0, -1000, 1000, -3)
NO_LINES: Final = (
    b"\n",
    b"EVENT 0 7\r\n",
    b"EVENT 00 7\n",
    b"EVENT 0 +7\n",
    b"EVENT 0 -0\n",
    b"EVENT 0 1001\n",
    b"x" * 63 + b"\n",
)
LONG: Final = (b"EVENT 0 7".ljust(64) + b"\n", event_line(10**56, 7), b"x" * 64 + b"EVENT 0 7\n", b"x" * 300 + b"\n")


# --- what is drawn ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Act:
    """One line, and how it goes: held back for the next segment, sent, cut in two, or sent and waited for."""

    kind: Kind
    number: int
    flow: Flow

    def line(self, state: State) -> bytes:
        """The bytes, where the store holds this."""
        match self.kind:
            case "bad":
                return NO_LINES[self.number % len(NO_LINES)]
            case "long":
                return LONG[self.number % len(LONG)]
            case "gap":
                return event_line(stream.last_of(state) + 2 + self.number, 7)
            case "again" | "other" if state.ledger:
                known = state.ledger[self.number % len(state.ledger)]
                return event_line(known.seq, known.delta if self.kind == "again" else -known.delta or 1)
        return event_line(stream.last_of(state) + 1, DELTAS[self.number % len(DELTAS)])


@dataclass(frozen=True, slots=True)
class Session:
    """What one publisher does, and where the receiver dies of it, if it does: at a hook, in its nth new event."""

    acts: tuple[Act, ...]
    ending: Ending
    crash: tuple[str, int] | None


KINDS: Final[tuple[Kind, ...]] = ("next", "next", "next", "next", "again", "again", "other", "gap", "bad", "long")
FLOWS: Final[tuple[Flow, ...]] = ("heard", "held", "sent", "cut")
ENDINGS: Final[tuple[Ending, ...]] = ("half-close", "close", "reset", "fragment")
HOOKS: Final = tuple(dict.fromkeys(hook.name for hook in FAULT_HOOKS))


def parse(text: str) -> Session:
    """The session that ``text``, its ``repr``, stands for; ValueError for any other text. Nothing is executed."""
    session: Session = parse_one_of((Session,), text, Act)
    acts: object = session.acts
    if session.ending not in ENDINGS or not isinstance(acts, tuple) or not all(map(_is_act, acts)):
        raise ValueError(f"not a session: {text}")
    return session


def _is_act(value: object) -> bool:
    return isinstance(value, Act) and value.kind in KINDS and value.flow in FLOWS and type(value.number) is int
