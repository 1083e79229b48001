"""The world of publisher, wire and receiver as a pure state machine: one stream, and one connection at a time.

The receiver's store is the model's own (``stream``); what the publisher sends after ``RESUME`` is what ``replay`` says.
Either end may die and the connection may break at any moment: then all that was under way on it is lost, and what
remains is the store, the log, and what the publisher has heard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from model import events, stream
from model.contract import Crash, Raise, Reply, Return
from model.events import RESYNC_REQUIRED, Consume, ack_line, event_line, resume_line

EVENTS: Final = ((0, 7), (1, -3), (2, 10))
"""All that is ever published; the world's publisher begins with the first, since ``replay`` knows no empty log."""

NO_LINE: Final = b"EVENT 0 -0\n"
NONE: Final = stream.NONE


class Wire(NamedTuple):
    """A connection: the lines under way to the receiver, those under way back, and how far either end is.

    ``sent`` is the last event that was sent in turn, None until RESUME is heard; ``owed`` is the event that the
    receiver has read and not yet acknowledged.
    """

    lines: tuple[bytes, ...] = ()
    back: tuple[bytes, ...] = ()
    sent: int | None = None
    owed: int | None = None


class Session(NamedTuple):
    """The publisher holds the events from ``first`` to ``newest``, and has heard of those up to ``heard``.

    ``answered`` is for the properties alone: whether any ACK for the last event of the store was ever written.
    """

    store: events.State = stream.EMPTY
    first: int = 0
    newest: int = 0
    heard: int = -1
    wire: Wire | None = None
    answered: bool = True

    @property
    def log(self) -> stream.Log:
        """What the publisher holds."""
        return EVENTS[self.first : self.newest + 1]

    @property
    def last(self) -> int:
        """The receiver's cursor."""
        return stream.last_of(self.store)


# --- what can happen --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """The log gets its next event."""


@dataclass(frozen=True, slots=True)
class Trim:
    """The log drops its oldest event, acknowledged or not."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The publisher is restored from an older log, which lacks the newest event."""


@dataclass(frozen=True, slots=True)
class Connect:
    """A receiver opens the store, connects, and says where to go on."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks or one of its ends dies; what was under way is lost."""


@dataclass(frozen=True, slots=True)
class Hear:
    """The publisher reads the next line that came back."""


@dataclass(frozen=True, slots=True)
class Send:
    """The publisher sends the event after the last one it sent."""


@dataclass(frozen=True, slots=True)
class Resend:
    """The publisher sends an event again."""

    seq: int


@dataclass(frozen=True, slots=True)
class Lie:
    """The publisher sends an event again, with another delta."""

    seq: int


@dataclass(frozen=True, slots=True)
class Skip:
    """The publisher leaves an event out."""


@dataclass(frozen=True, slots=True)
class Garble:
    """The publisher sends what is no line."""


@dataclass(frozen=True, slots=True)
class Receive:
    """The receiver reads a line and applies it, or dies in this hook on the way."""

    hook: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The receiver writes the ACK that it owes."""


Move = Publish | Trim | Forget | Connect | Drop | Hear | Send | Resend | Lie | Skip | Garble | Receive | Answer
Outcome = tuple[Session, Reply]


def step(state: Session, move: Move) -> Outcome:
    """What a move that this state allows leaves behind, and what comes of it: of the receiver's, its store's reply; of
    the publisher's, ResyncRequired where its log cannot go on.

    Without a connection nothing happens on one; who has nothing to read, to send or to answer does nothing.
    """
    match move:
        case Publish():
            return state._replace(newest=min(state.newest + 1, len(EVENTS) - 1)), NONE
        case Trim():
            return state._replace(first=min(state.first + 1, state.newest)), NONE
        case Forget():
            return state._replace(newest=max(state.newest - 1, state.first)), NONE
        case Connect():
            return state if state.wire else _connect(state), NONE
    return _on_the_wire(state, state.wire, move) if state.wire else (state, NONE)


def _connect(state: Session) -> Session:
    return state._replace(wire=Wire(back=(resume_line(state.last),)))


def _on_the_wire(
    state: Session, wire: Wire, move: Drop | Hear | Send | Resend | Lie | Skip | Garble | Receive | Answer
) -> Outcome:
    match move:
        case Drop():
            return state._replace(wire=None), NONE
        case Hear():
            return _hear(state, wire)
        case Receive():
            return _receive(state, wire, move)
        case Answer():
            return _answer(state, wire)
        case _:
            return (state, NONE) if wire.sent is None else _say(state, wire, wire.sent, move)


# --- the publisher ----------------------------------------------------------------------------------------------------


def _hear(state: Session, wire: Wire) -> Outcome:
    if not wire.back:
        return state, NONE
    line, *rest = wire.back
    seq = int(line.split()[1])
    wire = wire._replace(back=tuple(rest))
    if line != resume_line(seq):
        return state._replace(heard=max(state.heard, seq), wire=wire), NONE
    if isinstance(stream.replay(state.log, seq, 1), Raise):
        return state._replace(wire=None), RESYNC_REQUIRED
    return state._replace(wire=wire._replace(sent=seq)), NONE


def _say(state: Session, wire: Wire, sent: int, move: Send | Resend | Lie | Skip | Garble) -> Outcome:
    match move:
        case Send():
            return _send(state, wire, sent)
        case Resend():
            return _said(state, wire, event_line(*EVENTS[move.seq])), NONE
        case Lie():
            seq, delta = EVENTS[move.seq]
            return _said(state, wire, event_line(seq, delta + 1)), NONE
        case Skip():
            return _said(state, wire, event_line(*EVENTS[sent + 2])), NONE
        case Garble():
            return _said(state, wire, NO_LINE), NONE
        case _:
            assert_never(move)


def _said(state: Session, wire: Wire, line: bytes) -> Session:
    return state._replace(wire=wire._replace(lines=(*wire.lines, line)))


def _send(state: Session, wire: Wire, sent: int) -> Outcome:
    """The log may have moved on, or been lost, since the receiver connected."""
    batch = stream.replay(state.log, sent, 1)
    if isinstance(batch, Return | Raise):
        return state._replace(wire=None), batch
    for event in batch:
        return _said(state, wire._replace(sent=event[0]), event_line(*event)), NONE
    return state, NONE


# --- the receiver -----------------------------------------------------------------------------------------------------


def _receive(state: Session, wire: Wire, move: Receive) -> Outcome:
    """It reads on only where it owes nothing; any error ends the connection."""
    if not wire.lines or wire.owed is not None:
        return state, NONE
    line, *rest = wire.lines
    consume = Consume(line)
    store, reply = stream.step(state.store, consume if move.hook is None else Crash(consume, move.hook))
    answered = state.answered and store is state.store
    after = wire._replace(lines=tuple(rest), owed=int(line.split()[1])) if isinstance(reply, Return) else None
    return state._replace(store=store, wire=after, answered=answered), reply


def _answer(state: Session, wire: Wire) -> Outcome:
    if wire.owed is None:
        return state, NONE
    ack = ack_line(wire.owed)
    after = wire._replace(back=(*wire.back, ack), owed=None)
    return state._replace(wire=after, answered=state.answered or wire.owed == state.last), Return(ack)
