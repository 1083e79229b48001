"""Random company for an experiment with a stream: the same death later on, with other deltas, among what is refused."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from chaos.stream_experiments import WAYS, StreamExperiment, Way, line
from model import stream
from model.contract import Reopen
from model.events import BOUNDS, Apply, Consume, Plain, State

LONGEST: Final = 12
"""So many events may have come before the experiment's own: the number of the last has one digit or two."""
PLACES: Final = 4
"""Between so many of its operations may something else come."""


def draw(experiment: StreamExperiment, rng: random.Random) -> StreamExperiment:
    """The experiment in surroundings that ``rng`` draws."""
    return _Draw(rng).experiment(experiment)


@dataclass(slots=True)
class _Draw:
    """One draw: how many events come before the experiment's own, ``earlier``, and what its deltas become."""

    rng: random.Random
    earlier: int = 0
    deltas: dict[int, int] = field(default_factory=lambda: {0: 0})
    setup: list[Plain | Reopen] = field(default_factory=list)
    state: State = stream.EMPTY

    def experiment(self, old: StreamExperiment) -> StreamExperiment:
        self.earlier = self.rng.choice((0, 1, 2, self.rng.randrange(LONGEST)))
        for seq in range(self.earlier):
            self._do(self._way()(seq, self.rng.randint(*BOUNDS["delta"])))
        end = len(old.setup)
        places = self.rng.sample(range(end + 1), min(PLACES, end + 1))
        for place, op in enumerate(old.setup):
            if place in places:
                self._company()
            self._do(op if isinstance(op, Reopen) else self._moved(op))
        if end in places:
            self._company()
        return replace(old, setup=tuple(self.setup), op=self._moved(old.op))

    def _do(self, op: Plain | Reopen) -> None:
        self.setup.append(op)
        self.state, _ = stream.step(self.state, op)

    # --- the experiment's own operations ------------------------------------------------------------------------------

    def _moved(self, op: Plain) -> Plain:
        """The same so much later; what is no line stays none."""
        if isinstance(op, Apply):
            return Apply(self.earlier + op.seq, self._delta(op.delta))
        event = stream.parse_line(op.data)
        return op if event is None else line(self.earlier + event[0], self._delta(event[1]))

    def _delta(self, old: int) -> int:
        """Another for another, of the same sign."""
        if old not in self.deltas:
            sizes = (1, 1000, self.rng.randint(2, 999), self.rng.randint(2, 999))
            signed = [size if old > 0 else -size for size in sizes]
            self.deltas[old] = self.rng.choice([new for new in signed if new not in self.deltas.values()])
        return self.deltas[old]

    # --- company ------------------------------------------------------------------------------------------------------

    def _company(self) -> None:
        """What changes nothing: events from before and from far ahead, the same with another delta, what is no line."""
        last = stream.last_of(self.state)
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            event = self._way()
            known = self.state.ledger[self.rng.randrange(last + 1)] if last >= 0 else None
            strangers: list[Plain] = [event(last + self.rng.randint(2, 9), 1), Consume(b"EVENT 0 +1\n")]
            if known is not None:
                other = known.delta - 1 if known.delta > 0 else known.delta + 1
                strangers += [event(known.seq, known.delta), event(known.seq, other)]
            self._do(self.rng.choice(strangers))

    def _way(self) -> Way:
        return self.rng.choice(tuple(WAYS.values()))
