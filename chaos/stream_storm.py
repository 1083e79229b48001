"""The storm of receivers: one at a time, killed by seed, over thousands of events that come again, in pieces, or not.

The harness is the publisher. The seed fixes what each process is to suffer and what it is sent; where exactly a process
is struck down from outside is the kernel's to choose. Whenever ACKs are read, the file is looked at over a connection
of the harness: what was acknowledged must be committed by then. Between sessions all of it is read.
"""

from __future__ import annotations

import signal
import socket
import time
from collections import Counter, deque
from pathlib import Path
from random import Random
from typing import Final, NoReturn

from chaos.chronicle import Chronicle
from chaos.killer import Unanswered, patience
from chaos.receiver import ENDED
from chaos.storm import Show
from chaos.stream_aftermath import Reading, Unsound
from chaos.stream_seats import Seats, seated
from chaos.stream_session import Session, Wrong
from chaos.stream_weather import Course, Fate, Weather, course, fate, log
from model.contract import LOCKED
from model.counterexample import Violation
from model.counterexample import show as said

TOLD: Final = 12
"""Sessions that a failure tells of, the last ones."""
LONGEST: Final = 300
"""More events than any session has."""


def check(
    weather: Weather, store: Path, module: Path, seed: int, did: Counter[str], show: Show = lambda _: None
) -> None:
    """One storm over ``store``, a file to be made in an empty folder; a Violation if a law is broken.

    Unanswered if too little has happened for it to show anything.
    """
    random = Random(seed)  # noqa: S311 - no secret
    with seated(module, store, patience()) as seats:
        storm, wrong = Storm(weather, store, seats, random), False
        try:
            storm.until_calm()
        except Violation:
            wrong = True
            raise
        finally:
            storm.reading.close()
            did.update(storm.did)
            show(storm.chronicle.data(f"storm of seed {seed}", wrong=wrong))
    if lacks := weather.lacks(storm.did):
        raise Unanswered(f"the storm is void: {lacks}")


class Storm:
    """The course of it: one process after another, one session after another, and what must hold in between."""

    def __init__(self, weather: Weather, store: Path, seats: Seats, random: Random) -> None:
        self.did: Counter[str] = Counter()
        self.log = log(random, weather.events + weather.spare + LONGEST)
        self.reading = Reading(store, self.log)
        self.chronicle = Chronicle()
        self._weather, self._seats, self._random = weather, seats, random
        self._told: deque[str] = deque(maxlen=TOLD)
        self._last = self._start = -1

    def until_calm(self) -> None:
        """Until enough has happened, or nothing more may; then all that is missing is sent to one who may live."""
        weather, most = self._weather, self._weather.events + self._weather.spare
        while weather.lacks(self.did) and self._last < most and self.did["sessions"] < weather.sessions:
            self._live(fate(self._random))
        back = min(self._last + 1, LONGEST)
        self._live(Fate(1), Course(back, LONGEST // 2, 16, 2, "finishes"))

    def _live(self, destiny: Fate, how: Course | None = None) -> None:
        """One process from its birth to its death."""
        self._start = self._last
        self._seats.start(destiny.calls, destiny.hook, destiny.nth)
        self.chronicle.born(self._seats.born, self._seats.pid, _told(destiny))
        for number in range(1, destiny.calls + 1):
            if self._session(destiny, number, how or course(self._random, self._last)):
                break
        else:
            self._died(self._seats.word(), 0)
        self._seats.turn_away()

    def _session(self, destiny: Fate, number: int, how: Course) -> bool:
        """Whether the process has died in it."""
        caller, began = self._seats.caller(), time.monotonic_ns()
        name = f"receiver {self._seats.born}, call {number} ({_told(destiny)})"
        if not isinstance(caller, socket.socket):
            self._unconnected(caller, name)
            return False
        strike_at = destiny.strike_at if number == destiny.strike_in else None
        draws = Random(self._random.random())  # noqa: S311 - no secret
        session = Session(caller, draws, self.log, self._last, self.reading)
        session.strike_at, session.strike = strike_at, self._seats.strike
        try:
            with caller:
                session.hold(how)
            word = self._seats.last_word()
            if word is None:
                raise Wrong("run_client connects again by itself")  # noqa: TRY301 - told as all that is wrong
            reply = str(word[2]) if word[1] == ENDED else ""
            died, killed = not reply or strike_at is not None, False
            if died:
                # One that is struck down at the end of its last call may have come to its own end before.
                may = (0, -signal.SIGKILL) if reply else (-signal.SIGKILL,)
                killed = self._died(self._seats.word() if reply else word, *may) != 0
            session.judge(reply, killed=not reply)
            self._judge_hook(destiny, session.left, died=not reply)
        except (Wrong, Unsound) as what:
            self.chronicle.session(began, session.noted, f"{name}: {session}", str(what))
            self._fail(str(what), f"{name}: {session}")
        self.chronicle.session(began, session.noted, f"{name}: {session}", reply or "SIGKILL")
        if killed:
            self.chronicle.died(_told(destiny))
        self._told.append(f"{name}: {session}; {reply or 'SIGKILL'}; then the file is at {session.left}")
        self._count(session, killed=killed)
        return died

    def _unconnected(self, word: list[object], name: str) -> None:
        """It may only have found the file locked."""
        if word[1] != ENDED:
            raise Unanswered(f"{name}: {word}, and has not connected")
        if word[2] != said(LOCKED):
            self._fail(f"run_client {word[2]}, and has not connected", name)
        self.did["sessions"] += 1

    def _judge_hook(self, destiny: Fate, left: int, *, died: bool) -> None:
        """A commit for each call of ``after-commit``; for one of ``after-total`` none, if the file was locked."""
        inside = destiny.hook == "after-total"
        most = self._start + destiny.nth - inside
        if died and destiny.hook and (left > most or (left < most and not inside)):
            raise Wrong(f"the file is at {left} after a death in {destiny.hook}, must be at {most}")

    def _died(self, word: list[object], *may: int) -> object:
        """With which of the statuses that it may have died with."""
        if word[:2] != ["", "died"] or word[3] not in may:
            raise Unanswered(f"receiver {self._seats.born}: {word}, must have died with status {may}")
        return word[3]

    def _count(self, session: Session, *, killed: bool) -> None:
        self.did["sessions"] += 1
        self.did["receivers killed"] += killed
        self.did["events"] += session.left - self._last
        self.did["resends"] += session.again
        self._last = session.left

    def _fail(self, what: str, now: str) -> NoReturn:
        raise Violation(what, [f"# {line}" for line in (*self._told, now)])


def _told(destiny: Fate) -> str:
    if destiny.hook:
        return f"killed in {destiny.hook}, time {destiny.nth}"
    return f"struck in call {destiny.strike_in} after {destiny.strike_at} bytes" if destiny.strike_in else "may live"
