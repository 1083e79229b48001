"""Random company for an experiment with a stream: the same death later on, with other deltas, among what is refused.

As in ``variation``, only the surroundings change, and a draw that would make the experiment void is thrown away.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field, replace
from typing import Final

from chaos.matrix import Void
from chaos.stream_experiments import WAYS, StreamExperiment, Way, line
from model import stream
from model.contract import Reopen
from model.events import BOUNDS, Apply, Consume, Plain, State

DRAWS: Final = 8
LONGEST: Final = 40
"""How many events may have come before the experiment's own."""


def vary(experiment: StreamExperiment, rng: random.Random) -> StreamExperiment:
    """The experiment in surroundings that ``rng`` draws; as it is, if every draw would make it void."""
    for _ in range(DRAWS):
        with contextlib.suppress(Void):
            varied = _Draw(rng).experiment(experiment)
            varied.outcomes()
            return varied
    return experiment


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
        for op in old.setup:
            self._company()
            self._do(op if isinstance(op, Reopen) else self._moved(op))
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
