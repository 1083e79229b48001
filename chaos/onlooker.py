"""A receiver whose file somebody reads for long: it may wait or give up, but acknowledges nothing it cannot commit."""

from __future__ import annotations

from collections import Counter
from typing import Final

from chaos.exchange import Exchange
from chaos.reception import Reception
from chaos.sessions import LOG, Experiment, Session, Story, lines, returns
from chaos.trial import differences_at
from model import stream
from model.contract import LOCKED
from model.counterexample import show
from model.events import Consume, State, ack_line, event_line
from model.port import reading
from model.store import Store

LOOKS_S: Final = 3.0
"""For how long nobody may say anything before the lock is let go: a receiver that has not given up by then waits."""
GIVES_UP: Final = show(LOCKED)

LOOKS: Final = {"a new event": 2, "an event that it has": 1}
"""Which event is sent, while the file is read, to a receiver that has processed two."""


def check(seq: int, exchange: Exchange, store: Store, did: Counter[str]) -> None:
    """No ACK of what is not committed; once nobody reads, the same receiver or the next one goes on from there."""
    experiment = Experiment("somebody reads the file", (Session(lines(0, 1)), Session(lines(1, 3))), LOG)
    onlooker = Onlooker(experiment, exchange, store)
    before, after = experiment.sessions
    with exchange.at_work():
        onlooker.begin()
        first, _ = experiment.stories()
        onlooker.play(before, first)
        left = onlooker.overlook(seq, first.left)
        last = Experiment(experiment.name, (Session(lines(0, stream.last_of(left))), after), LOG).stories()[-1]
        onlooker.play(after, last)
    did["sessions"] += 3


class Onlooker(Reception):
    """The one who reads."""

    def overlook(self, seq: int, found: State) -> State:
        """One session whose line comes while the file is read: what it leaves, whether it waits or gives up."""
        line, answer = event_line(*LOG[seq]), ack_line(seq)
        after, _ = stream.step(found, Consume(line))
        session, whole = Session((line,)), Story(found, [(line, answer)], returns(after), after)
        self._start(session, whole)
        self._hear_lines(1)
        self._agree_seen(whole.saw[:1])
        with reading(self.store.path):
            self._say(line)
            while not self.seen.reply and self.exchange.speaks(LOOKS_S):
                self._note(self.exchange.word())
            if len(self.seen.saw) > 1:
                self._agree("after an ACK while the file is read", differences_at(self.store, after))
        # It may have given up just then.
        self._hear(lambda: len(self.seen.saw) > 1 or bool(self.seen.end and self.seen.reply), whatever=True)
        gave_up = self.seen.reply == GIVES_UP and len(self.seen.saw) == 1
        story = Story(found, [(line, b"")], GIVES_UP, found) if gave_up else whole
        self._finish(session, story)
        self._done()
        return story.left
