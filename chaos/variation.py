"""Random company for an experiment with a queue: the same death among other jobs, at other times, under other names."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field, replace
from typing import Final

from chaos.experiments import QueueExperiment
from chaos.matrix import Void
from model import lease
from model.contract import BOUNDS, Claim, Enqueue, Finish, Plain, Redrive, Reply, Return, RunOnce, State, Ticket

LETTERS: Final = string.ascii_letters + string.digits + "_-"
LATEST_MS: Final = BOUNDS["now_ms"].high - 300_000
"""How far an experiment can be moved: whatever is done in it and after it must still be a time."""
AWAY_MS: Final = 1000
"""Longer than any experiment lasts: who is busy or not due for so long does not get in its way."""


def draw(experiment: QueueExperiment, rng: random.Random) -> QueueExperiment:
    """The experiment in surroundings that ``rng`` draws. Void if they get in its way."""
    return _Draw(rng, keep_names=experiment.tight).experiment(experiment)


@dataclass(slots=True)
class _Draw:
    """One draw: where the experiment is moved to, what its names become, and the tickets that come of that.

    ``keep_names``: an experiment that depends on the size of its rows keeps its names.
    """

    rng: random.Random
    keep_names: bool
    names: dict[str, str] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    tickets: dict[Ticket, Ticket] = field(default_factory=dict)
    setup: list[Plain] = field(default_factory=list)
    state: State = lease.EMPTY
    start_ms: int = 0

    def experiment(self, old: QueueExperiment) -> QueueExperiment:
        self.start_ms = self.rng.choice((0, self.rng.randrange(AWAY_MS), self.rng.randrange(LATEST_MS), LATEST_MS))
        for _ in range(self._some()):
            self._stranger()
        before = lease.EMPTY
        for op in old.setup:
            before, reply = lease.step(before, op)
            got = self._do(self._moved(op))
            if ticket := _ticket(reply):
                self.tickets[ticket] = _ticket(got) or ticket
            if isinstance(op, Enqueue):
                self._history(self.names[op.id], op)
        for _ in range(self._some()):
            self._latecomer()
        moved = self._moved_run(old.op) if isinstance(old.op, RunOnce) else self._moved(old.op)
        return replace(old, setup=tuple(self.setup), op=moved)

    def _do(self, op: Plain) -> Reply:
        self.setup.append(op)
        self.state, reply = lease.step(self.state, op)
        return reply

    # --- the experiment's own operations ------------------------------------------------------------------------------

    def _moved(self, op: Plain) -> Plain:
        now_ms = self.start_ms + op.now_ms
        match op:
            case Enqueue():
                return replace(op, id=self._name(op.id), qty=self._amount(op.id), now_ms=now_ms)
            case Claim():
                return replace(op, owner=self._name(op.owner), now_ms=now_ms)
            case Finish():
                return replace(op, ticket=self.tickets[op.ticket], now_ms=now_ms)
            case Redrive():
                return replace(op, job_id=self._name(op.job_id), note=self._name(op.note), now_ms=now_ms)

    def _moved_run(self, op: RunOnce) -> RunOnce:
        first_ms, second_ms = self.start_ms + op.first_ms, self.start_ms + op.second_ms
        jitter = self.rng.choice((0.0, 1.0, self.rng.random()))
        return replace(op, owner=self._name(op.owner), first_ms=first_ms, second_ms=second_ms, jitter=jitter)

    def _name(self, old: str) -> str:
        if old not in self.names:
            self.names[old] = old if self.keep_names else self._new_name()
        return self.names[old]

    def _new_name(self) -> str:
        length = self.rng.choice((3, 8, 64))
        name = "".join(self.rng.choices(LETTERS, k=length))
        return name if name not in self.names.values() else self._new_name()

    def _amount(self, old: str) -> int:
        return self.amounts.setdefault(old, self.rng.choice((1, 1000, self.rng.randint(1, 1000))))

    # --- company ------------------------------------------------------------------------------------------------------

    def _some(self) -> int:
        return self.rng.choice((0, 0, 0, 1, 1, 4))

    def _history(self, job_id: str, op: Enqueue) -> None:
        """The job has been claimed, refused and redriven before: its token is no longer 0, all the rest is as new."""
        now_ms = self.start_ms + op.now_ms
        for _ in range(self.rng.choice((0, 0, 0, 1, 2))):
            claim = Claim(self._new_name(), now_ms)
            ticket = _ticket(lease.step(self.state, claim)[1])
            if ticket is None or ticket.id != job_id:
                return
            for step in (claim, Finish(ticket, "permanent", now_ms), Redrive(job_id, now_ms, op.ttl_ms, "before")):
                self._do(step)

    def _stranger(self) -> None:
        """A job that came first, and that nobody can claim while the experiment lasts."""
        job_id, now_ms, away_ms = self._new_name(), self.start_ms, AWAY_MS + self.rng.randrange(50_000)
        kind = self.rng.choice(("later", "held", "doomed", "ok", "permanent", "retry", "redriven"))
        arrival_ms, ttl_ms = now_ms + away_ms * (kind == "later"), 50 if kind == "doomed" else 60_000
        self._do(Enqueue(job_id, self.rng.randint(1, 1000), arrival_ms, ttl_ms, self.rng.randint(2, 16)))
        if kind == "later":
            return
        ticket = _ticket(self._do(Claim(self._new_name(), now_ms, away_ms)))
        if ticket is None or ticket.id != job_id:
            raise Void(f"{job_id} stands in the way")
        if kind in ("ok", "permanent", "retry"):
            self._do(Finish(ticket, kind, now_ms, away_ms))
        if kind == "redriven":
            self._do(Finish(ticket, "permanent", now_ms))
            self._do(Redrive(job_id, now_ms + away_ms, 60_000, self._new_name()))

    def _latecomer(self) -> None:
        """A job that came last: it may be due, it may be past its deadline, but others are first."""
        now_ms, ttl_ms = self.start_ms + self.rng.randrange(100), self.rng.choice((1, 40, 60_000))
        self._do(Enqueue(self._new_name(), self.rng.randint(1, 1000), now_ms, ttl_ms, self.rng.randint(1, 16)))


def _ticket(reply: Reply) -> Ticket | None:
    return reply.value if isinstance(reply, Return) and isinstance(reply.value, Ticket) else None
