"""Finite worlds of the receiver's store: how many events there are, with which deltas, and what else may come.

In every state each event up to the one after the next may come, with each delta, by call and by line, and its process
may die in each hook; so may an event from far away and whatever is no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from model import stream
from model.contract import Blocked, Crash, Reply
from model.events import BOUNDS, Apply, Consume, Op, Plain, State, event_line, hooks_of
from model.explorer import Scope

FAR: Final = 10**50
"""A seq that fits a line and no column."""

NO_LINES: Final = (b"", b"EVENT 0 0", b"EVENT 0 0\r\n", b"EVENT 00 0\n", b"EVENT 0 -0\n", b"EVENT 0 1001\n")


@dataclass(frozen=True, slots=True)
class Domains:
    """``events``: how many there are, from 0 on; the first of ``deltas`` is the one that dies and is held up."""

    events: int
    deltas: tuple[int, ...]

    @property
    def words(self) -> str:
        """What is in such a world."""
        return f"the receiver's store: events {self.events}, each with delta {' or '.join(map(str, self.deltas))}"


def scope(name: str, domains: Domains) -> Scope[State, Op, Reply]:
    """The world of these domains."""
    return Scope(name, stream.EMPTY, stream.step, _Ops(domains), about=domains.words)


@dataclass(frozen=True, slots=True)
class _Ops:
    """Everything that may be asked in a state."""

    domains: Domains

    def __call__(self, state: State) -> Iterator[Op]:
        known, domains = stream.last_of(state), self.domains
        for seq, delta in product(range(min(known + 3, domains.events)), domains.deltas):
            yield Apply(seq, delta)
            yield Consume(event_line(seq, delta))
        for seq in range(max(known, 0), min(known + 2, domains.events)):
            yield from _disturbed([Apply(seq, domains.deltas[0]), Consume(event_line(seq, domains.deltas[0]))])
        low, high = BOUNDS["delta"]
        yield from (Apply(FAR, 0), Consume(event_line(FAR, 0)), Apply(known + 1, low - 1), Apply(known + 1, high + 1))
        yield from map(Consume, NO_LINES)


def _disturbed(ops: Iterable[Plain]) -> Iterator[Crash[Plain] | Blocked[Plain]]:
    for op in ops:
        yield Blocked(op)
        for hook in hooks_of(op):
            yield Crash(op, hook.name)


SCOPES: Final = {
    name: scope(name, domains)
    for name, domains in {
        "brief": Domains(events=2, deltas=(7, 0)),
        "stream": Domains(events=5, deltas=(7, 0, -1000)),
        "long": Domains(events=8, deltas=(7, 0, -1000)),
    }.items()
}

SIZES: Final = {
    "brief": (7, 180),
    "stream": (364, 17_356),
    "long": (9_841, 646_240),
}
"""States and transitions of each world: a model that has changed finds others, and cannot pass unseen."""
