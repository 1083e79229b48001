"""The stateful machine of the store: one rule for each way in which an event can arrive, on several connections."""

from __future__ import annotations

from hypothesis.stateful import rule

from model.events import Apply, Consume, Plain, event_line, hooks_of
from stateful_tests import stream_strategies as draw
from stateful_tests.machine import Machine
from stateful_tests.strategies import Ending, connections, ended, endings


class StoreMachine(Machine):
    """What a store is asked."""

    def event(self, arrival: str, choice: int, delta: int) -> tuple[int, int]:
        return draw.event(self.pair.state, arrival, choice, delta)

    def do(self, op: Plain, ending: Ending, con: int) -> None:
        whole = ended(op, hooks_of(op), ending)
        self.perform(whole, con)

    @rule(con=connections, arrival=draw.arrivals, choice=draw.choices, delta=draw.deltas, ending=endings)
    def apply(self, con: int, arrival: str, choice: int, delta: int, ending: Ending) -> None:
        self.do(Apply(*self.event(arrival, choice, delta)), ending, con)

    @rule(con=connections, arrival=draw.arrivals, choice=draw.choices, delta=draw.deltas, ending=endings)
    def consume(self, con: int, arrival: str, choice: int, delta: int, ending: Ending) -> None:
        self.do(Consume(event_line(*self.event(arrival, choice, delta))), ending, con)

    @rule(con=connections, arrival=draw.arrivals, choice=draw.choices, spoil=draw.spoils, ending=endings)
    def malformed(self, con: int, arrival: str, choice: int, spoil: str, ending: Ending) -> None:
        line = event_line(*self.event(arrival, choice, delta=1))
        self.do(Consume(draw.SPOILS[spoil](line)), ending, con)
