"""Finite worlds of publisher, wire and receiver: all that can happen in a state, and what fairly happens next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from model import session, stream
from model.contract import Reply
from model.events import Consume, event_line
from model.explorer import Scope
from model.session import (
    EVENTS,
    Answer,
    Connect,
    Drop,
    Forget,
    Garble,
    Hear,
    Lie,
    Move,
    Publish,
    Receive,
    Resend,
    Send,
    Session,
    Skip,
    Trim,
    Wire,
)

TRUE_LINES: Final = frozenset(event_line(*event) for event in EVENTS)


@dataclass(frozen=True, slots=True)
class Domains:
    """How many events there ever are, and how many lines may be under way in each direction.

    The receiver writes no ACK while ``acks`` lines are on their way back.
    """

    events: int
    lines: int
    acks: int

    @property
    def words(self) -> str:
        """What is in such a world."""
        return (
            f"publisher and receiver: events {self.events}, lines under way {self.lines} + {self.acks}; "
            "deaths, resends, errors, a log that is trimmed or lost"
        )


def scope(name: str, domains: Domains) -> Scope[Session, Move, Reply]:
    """The world of these domains."""
    return Scope(name, Session(), session.step, _Moves(domains), about=domains.words)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Everything that can happen in a state."""

    domains: Domains

    def __call__(self, state: Session) -> Iterator[Move]:
        if state.newest + 1 < self.domains.events:
            yield Publish()
        if state.first < state.newest:
            yield from (Trim(), Forget())
        if state.wire is None:
            yield Connect()
            return
        yield Drop()
        yield from self._publisher(state, state.wire)
        yield from self._receiver(state, state.wire)

    def _publisher(self, state: Session, wire: Wire) -> Iterator[Move]:
        if wire.back:
            yield Hear()
        if wire.sent is None or len(wire.lines) == self.domains.lines:
            return
        if wire.sent != state.newest:
            yield Send()
        if all(line in TRUE_LINES for line in wire.lines):
            yield from self._repeats_and_errors(state, wire.sent)

    @staticmethod
    def _repeats_and_errors(state: Session, sent: int) -> Iterator[Move]:
        """Nothing behind a false line is ever read: one kind of line there is enough to show that."""
        for seq in range(state.first, min(sent, state.newest) + 1):
            yield from (Resend(seq), Lie(seq))
        if sent + 2 <= state.newest:
            yield Skip()
        yield Garble()

    def _receiver(self, state: Session, wire: Wire) -> Iterator[Move]:
        if wire.owed is not None:
            if len(wire.back) < self.domains.acks:
                yield Answer()
        elif wire.lines:
            yield Receive()
            yield from (Receive(hook.name) for hook in stream.hooks_reached(state.store, Consume(wire.lines[0])))


def fair(state: Session) -> Move:
    """What happens next where nothing goes wrong any more: what is under way arrives, a receiver without a connection
    makes one, and the publisher sends the first event of its log that it has not heard of, again if need be.
    """
    wire = state.wire
    if wire is None:
        return Connect()
    if wire.back:
        return Hear()
    if wire.owed is not None:
        return Answer()
    if wire.lines:
        return Receive()
    unheard = max(state.heard + 1, state.first)
    return Resend(unheard) if wire.sent is not None and unheard <= min(wire.sent, state.newest) else Send()


SCOPES: Final = {
    name: scope(name, domains)
    for name, domains in {
        "call": Domains(events=2, lines=1, acks=1),
        "session": Domains(events=3, lines=2, acks=1),
    }.items()
}

SIZES: Final = {
    "call": (918, 3_446),
    "session": (25_896, 115_035),
}
"""States and transitions of each world: a model that has changed finds others, and cannot pass unseen."""
