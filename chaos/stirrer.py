"""The course of a storm: who goes on, who sleeps on, who is struck down, and what time it is."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos.killer import PATIENCE_S, Unanswered
from chaos.seats import Seat, Seats
from chaos.stormer import AGAIN, CLAIM_READ, STATEMENT, Fate
from chaos.weather import SPARE, Weather, enqueues, operator_fate, redrives, worker_fate
from model.contract import Job, Plain, Redrive, State
from model.port import connect
from model.queue import observe

HICCUP_S: Final = 0.01
HICCUP_WORDS: Final = 4
"""One that has stopped within an operation may go on when so much was said, or nothing for so long: it may be all that
the others wait for."""

ROUNDS: Final = 4
"""So often every worker finds nothing, though something must be due, before that is taken for the last word."""


def look(path: Path) -> State:
    """All rows, over a connection that is closed at once."""
    with contextlib.closing(connect(path)) as con:
        return observe(con)


class Stirrer:
    """The one who stirs: hears every word, and says who goes on, who sleeps on, and what time it is."""

    def __init__(self, weather: Weather, path: Path, seats: Seats, random: Random) -> None:
        self.weather, self.random = weather, random
        self.did: Counter[str] = Counter()
        self._path, self._seats = path, seats
        self._workers = [self._seat(f"worker-{n}", weather.owners) for n in range(1, weather.workers + 1)]
        self._operator = self._seat("operator", ())
        self._due = deque[Plain](enqueues(random, weather.jobs))
        self._jobs, self._redrives = weather.jobs, weather.redrives
        self._batch: tuple[Plain, ...] = ()
        self._heard, self._rounds = 0, 0
        self._rows = State()
        self._calm = False

    def _seat(self, title: str, owners: tuple[str, ...]) -> Seat:
        return Seat(title, Random(f"{self.random.random()} {title}"), owners)  # noqa: S311 - no secret

    def until_calm(self) -> None:
        """Until every job is done or dead and enough has happened, or nothing more does."""
        for seat in (*self._workers, self._operator):
            self._seats.start(seat)
        while not self._calm:
            hiccups = [seat for seat in self._workers if seat.stop == STATEMENT and seat.doing == "stopped"]
            words = self._seats.words(HICCUP_S if hiccups else PATIENCE_S)
            if not words and not hiccups:
                raise Unanswered(f"nobody says anything for {PATIENCE_S:g} s: {self._states()}")
            for seat in hiccups:
                if not words or self._heard >= seat.rouse_at:
                    self._seats.rouse(seat)
            for word in words:
                self._heard += 1
                self._hear(word)
            self._go_on()

    def _states(self) -> str:
        return ", ".join(f"{seat.name} {seat.doing} {seat.stop}" for seat in (*self._workers, self._operator))

    # --- what is heard ------------------------------------------------------------------------------------------------

    def _hear(self, word: list[Any]) -> None:
        match word:
            case ["", "stopped", int(pid)] if seat := self._seats.of(pid):
                self._stopped(seat)
            case ["", "died", int(pid), int(status)] if seat := self._seats.of(pid):
                self._died(seat, status)
            case [str(name), "born", int(pid)] if seat := self._seats.by_name.get(name):
                self._seats.born(seat, pid)
            case [str(name), "sends", str(job_id), int(token), int(lease_until)] if seat := self._seats.by_name.get(
                name
            ):
                seat.doing, seat.ticket, seat.lease_until = "sends", (job_id, token), lease_until
                self._meet(seat)
            case [str(name), "stops", str(place)] if seat := self._seats.by_name.get(name):
                seat.stop = place
            case [str(name), "idle", *said] if seat := self._seats.by_name.get(name):
                self._idle(seat, said)
            case _:
                raise Unanswered(f"a process of the storm says {word}")

    def _idle(self, seat: Seat, said: list[Any]) -> None:
        """It has come to the end of what it was told; a worker that got no job rests until something changes."""
        born, seat.doing = seat.doing == "starting", "idle"
        if seat is self._operator:
            self._batch = ()
            return
        self._part(seat)
        seat.rests = not said and not born
        if said:
            self._seats.advance(self.random.randrange(20))
            self._finished(seat, *said)
        seat.late, seat.ticket = False, ("", 0)

    def _finished(self, seat: Seat, job_id: str, token: int, status: object) -> None:
        if seat.late and status is False:
            self.did["stale finishes refused"] += 1
        for sleeper in self._sleepers(job_id, token):
            if sleeper.patience == "settled":
                self._seats.rouse(sleeper)
        if status == "dead" and self._redrives and self.random.random() < 0.3:
            self._redrives -= 1
            self._due.appendleft(Redrive(job_id, 0, 20_000, "soon"))
        busy = [other for other in self._workers if other.doing == "busy" and other.pid]
        if busy and self.random.random() < 0.05:
            self._seats.strike(self.random.choice(busy))

    def _stopped(self, seat: Seat) -> None:
        seat.doing = "stopped"
        if seat.stop == STATEMENT:
            seat.rouse_at = self._heard + HICCUP_WORDS
            return
        self.did["stalls"] += 1
        if seat.stop == AGAIN:
            seat.patience = "held"
            self._due.appendleft(Redrive(seat.ticket[0], 0, 20_000, "at-once"))
        elif seat.stop != CLAIM_READ:
            seat.late = True
            self._seats.advance(max(0, seat.lease_until - self._seats.now_ms))
        self._stir()

    def _died(self, seat: Seat, status: int) -> None:
        if status != -signal.SIGKILL:
            raise Unanswered(f"{seat.name} ended with status {status}")
        self.did["processes killed"] += 1
        self._seats.bury(seat)
        self._part(seat)
        if seat is self._operator:
            self._due.extendleft(reversed(self._batch))
        self._seats.start(seat)

    # --- those who sleep ----------------------------------------------------------------------------------------------

    def _sleepers(self, job_id: str = "", token: int = 0) -> list[Seat]:
        """Those who have stopped for long; with an earlier token of this job, if one is given."""
        asleep = [seat for seat in self._workers if seat.doing == "stopped" and seat.stop != STATEMENT]
        return [seat for seat in asleep if not job_id or (seat.ticket[0] == job_id and seat.ticket[1] < token)]

    def _meet(self, seat: Seat) -> None:
        """It holds the job of one who sleeps: it may have to stand until that one has woken up and tried to finish."""
        for sleeper in self._sleepers(*seat.ticket):
            if sleeper.patience == "held":
                seat.waits_for = sleeper
                self._seats.rouse(sleeper)

    def _part(self, seat: Seat) -> None:
        for other in self._workers:
            if other.waits_for is seat:
                other.waits_for = None

    # --- what is said -------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._operator.doing == "idle":
            if self._due and self.random.random() < 0.3:
                self._operate(self.random.randrange(1, 3))
            elif all(self._is_still(seat) for seat in self._workers):
                self._calm = not self._move()
        for seat in self._workers:
            if seat.doing == "sends" and seat.waits_for is None:
                self._seats.tell(seat, Fate())
            if seat.doing == "idle" and not seat.rests:
                self._seats.tell(seat, self._fate(seat))

    def _fate(self, seat: Seat) -> Fate:
        """What its seed says; but some have to stay awake, and who may get the job of one that has finished it and is
        to do so again gets a ticket as like as can be: then the token alone tells them apart.
        """
        fate = worker_fate(seat.random)
        seat.patience = seat.random.choice(("held", "settled", "settled", "long"))
        crowded = len(self._sleepers()) >= self.weather.workers - 2
        if crowded and fate.stalls != STATEMENT:
            fate = replace(fate, stalls="")
        settled = [other.lease_until for other in self._sleepers() if other.stop == AGAIN]
        return replace(fate, until=settled[0]) if settled else fate

    def _operate(self, count: int) -> None:
        self._batch = tuple(self._due.popleft() for _ in range(min(count, len(self._due))))
        self._seats.tell(self._operator, operator_fate(self._operator.random, self._batch))
        self._stir()

    def _stir(self) -> None:
        for seat in self._workers:
            seat.rests = False

    @staticmethod
    def _is_still(seat: Seat) -> bool:
        return (seat.doing == "idle" and seat.rests) or (seat.doing == "stopped" and seat.stop != STATEMENT)

    def _move(self) -> bool:
        """All are still: have the next thing happen; False if there is none."""
        rows = look(self._path)
        if not self._due:
            self._revive([job for job in rows.jobs if job.status == "dead"])
        if self._due:
            self._operate(self.random.randrange(1, 6))
        elif sleepers := self._sleepers():
            for seat in sleepers:
                self._seats.rouse(seat)
        elif any(job.status in ("pending", "leased") for job in rows.jobs):
            return self._wait(rows)
        elif self._jobs < self.weather.jobs + self.weather.spare and self.weather.lacks(self.did):
            self._due.extend(enqueues(self.random, SPARE, self._jobs))
            self._jobs += SPARE
            self._operate(SPARE)
        else:
            return False
        return True

    def _revive(self, dead: list[Job]) -> None:
        if dead and self._redrives > 0:
            self._due.extend(redrives(self.random, [job.id for job in dead]))
            self._redrives -= len(self._due)

    def _wait(self, rows: State) -> bool:
        """Until something is due; False if all must have been for some time, and nobody finds it."""
        times = [time for job in rows.jobs for time in _times(job) if time > self._seats.now_ms]
        if times:
            self._seats.advance(min(times) - self._seats.now_ms)
        self._rounds = 0 if times or rows != self._rows else self._rounds + 1
        self._rows = rows
        self._stir()
        return self._rounds < ROUNDS


def _times(job: Job) -> tuple[int, ...]:
    """When something becomes of an open job without anybody's doing."""
    if job.status == "leased":
        return (job.lease_until or 0, job.deadline)
    return (job.available_at, job.deadline) if job.status == "pending" else ()
