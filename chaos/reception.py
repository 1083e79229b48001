"""One reception: a publisher, receivers that die or end, and the file; what each of them has seen must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.exchange import Exchange
from chaos.hearing import Hearing, Seen
from chaos.killer import patience
from chaos.publisher import SAW, WELL
from chaos.receiver import Order
from chaos.retelling import session_call
from chaos.sessions import HOOKS, Experiment, Session, Story
from chaos.trial import differences_at
from model import stream
from model.store import Store


def check(experiment: Experiment, exchange: Exchange, store: Store, did: Counter[str]) -> None:
    """RESUMEs, ACKs, ends, and the rows over a connection of the harness, must all be what the model says."""
    stories = experiment.stories()
    with exchange.at_work():
        reception = Reception(experiment, exchange, store)
        reception.begin()
        for session, story in zip(experiment.sessions, stories, strict=True):
            reception.play(session, story)
        reception.settle(stories)
    did["sessions"] += len(stories)
    did["receivers killed"] += sum(bool(session.dies) for session in experiment.sessions)
    did["lines sent"] += sum(len(story.lines) for story in stories)


# --- one session after another ----------------------------------------------------------------------------------------


class Reception(Hearing):
    """One experiment under way."""

    def play(self, session: Session, story: Story) -> None:
        """One session, from the call of ``run_client`` to its end or to the receiver's death."""
        self._start(session, story)
        if session.dies != "unheard":
            self._hear_lines(1)
            self._agree_seen(story.saw[:1])
            self._replay(session, story) if session.limit else self._send(session, story)
        if session.dies:
            self._kill(session, story)
        else:
            self._finish(session, story)
        self._done("; SIGKILL" * bool(session.dies))

    def _done(self, how: str = "") -> None:
        self.calls.append(f"{self.call}  # {self.seen}{how}")

    def settle(self, stories: Sequence[Story]) -> None:
        """The publisher's own notes, read once more as a whole."""
        self.exchange.publisher("notes")
        (notes,) = self.exchange.answer("notes")
        saw = [(number, text) for what, number, text in notes if what == SAW]
        heard = [
            (number, line.decode())
            for number, (story, session) in enumerate(zip(stories, self.experiment.sessions, strict=True), 1)
            for line in story.saw
            if session.dies != "unheard" or (number, line.decode()) in saw
        ]
        if saw != heard:
            self._fail(f"the publisher saw {saw}, must see {heard}")

    # --- the steps of a session ---------------------------------------------------------------------------------------

    def _start(self, session: Session, story: Story) -> None:
        self.number += 1
        self.seen = Seen()
        self.exchange.call()
        if session.dies == "unheard":
            self.exchange.publisher("look away")
        fresh = stream.last_of(story.left) - stream.last_of(story.found)
        hook = (session.dies, fresh + (session.dies == "after-total")) if session.dies in HOOKS else ("", 1)
        half = self.experiment.half(story) if session.dies == "within a line" else b""
        self.call = session_call(_parts(session, story), half, hook, killed=bool(session.dies), once=session.burst)
        self.exchange.receiver(Order(str(self.store.path), self.exchange.port, patience(), *hook))
        self._hear(lambda: self.seen.came)
        if not self.seen.came:
            self._fail(f"{self._run}: {self.seen.reply}, and has not connected")

    def _send(self, session: Session, story: Story) -> None:
        """Line by line, each when the one before is answered; what follows a wrong line comes with it."""
        if session.burst:
            self._say(b"".join(session.sends))
            return
        for number, (line, answer) in enumerate(story.lines, 1):
            if answer:
                self._say(line)
                self._hear_lines(number + 1)
                self._agree_seen(story.saw[: number + 1])
            else:
                self._say(_parts(session, story)[number - 1])

    def _replay(self, session: Session, story: Story) -> None:
        """The publisher asks the module what to send, and sends that."""
        self.exchange.publisher("retain", *session.retains)
        self.exchange.publisher("replay", self.number, session.limit)
        self._hear(lambda: self.seen.replayed is not None, whatever=True)
        log = [event for event in self.experiment.log if session.retains[0] <= event[0] <= session.retains[1]]
        got, must = self.seen.replayed, ([line for line, _ in story.lines], story.replays)
        cursor, shown = stream.last_of(story.found), _handed(*got or ([], ""))
        self.calls.append(f"client.replay({log}, {cursor}, {session.limit})  # {shown}")
        if got != must:
            self._fail(f"replay to the cursor {cursor}, {session.limit} at a time: {shown}, must be: {_handed(*must)}")

    def _say(self, data: bytes) -> None:
        self.exchange.publisher("send", self.number, data.decode("latin-1"))

    def _finish(self, session: Session, story: Story) -> None:
        """The publisher has nothing more to say."""
        if session.closes:
            self._hear_lines(len(story.saw))
        self.exchange.publisher("close" if session.closes else "finish", self.number)
        self._hear(lambda: bool(self.seen.end and self.seen.reply), whatever=True)
        self._agree_seen(story.saw)
        if self.seen.reply != story.ends:
            self._fail(f"{self._run}: {self.seen.reply}, must be: {story.ends}")
        self._agree("after it has ended", differences_at(self.store, story.left, writing=True))

    def _kill(self, session: Session, story: Story) -> None:
        if session.dies in HOOKS:
            self._hear(lambda: self.seen.stands)
            if not self.seen.stands:
                self._agree_seen(story.saw)
                self._hear_reply()
                self._fail(f"{self._run}: {self.seen.reply or 'says nothing'}, and {session.dies} was not reached")
        if session.dies == "within a line":
            self._say(self.experiment.half(story))
        inside = session.dies == "after-total"
        self._agree(f"while it is {_where(session)}", differences_at(self.store, story.left, writing=not inside))
        self.exchange.kill()
        if session.dies == "unheard":
            self.exchange.publisher("look")
        self._hear(lambda: bool(self.seen.end), whatever=True)
        unheard = session.dies == "unheard" and not self.seen.saw
        self._agree_seen([] if unheard else story.saw)
        self._agree(f"after its death {_where(session)}", differences_at(self.store, story.left, writing=True))


def _parts(session: Session, story: Story) -> list[bytes]:
    """What is sent, one by one; what follows a wrong line is sent with it."""
    sends = [data for data, _ in story.lines]
    return [*sends[:-1], sends[-1] + b"".join(session.sends[len(sends) :])] if sends else []


def _where(session: Session) -> str:
    return f"in {session.dies}" if session.dies in HOOKS else session.dies


def _handed(lines: Sequence[bytes], how: str) -> str:
    events = ", ".join(line.decode().removeprefix("EVENT ").rstrip("\n").replace(" ", ":") for line in lines)
    return f"hands out {events or 'nothing'}{f', then {how}' if how != WELL else ''}"
