"""Two real processes at one queue: at the same moment for one job, and side by side until there is none left."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from chaos import inbox
from chaos.courier import Order, text
from chaos.crew import Crew
from chaos.handover import run_file
from chaos.inbox import Inbox
from chaos.killer import Unanswered, patience
from chaos.trial import differences_at
from model import lease
from model.contract import LOCKED, Claim, Enqueue, Op, Ran, Reopen, Return, RunOnce, State
from model.counterexample import Violation, show, source
from model.port import connect, perform
from model.queue import Queue

PAIR: Final = ("first", "second")
TRIES: Final = 5
"""A machine may be so busy that a process gives up waiting for the lock: that is allowed, and tried again."""

NOTHING: Final = text(Return(None))
LOCKED_OUT: Final = text(LOCKED)

BOTH: Final = "two processes at one queue"

ONE_AT_A_TIME: Final = tuple(Enqueue(f"job-{number:02}", 5, 10 * number, 60_000) for number in range(20))
"""Each is due when all before it are leased."""

ALL_AT_ONCE: Final = tuple(Enqueue(f"job-{number:02}", 5, 0, 60_000) for number in range(30))


def check_claims(crew: Crew, queue: Queue, owners: tuple[str, str], did: Counter[str]) -> None:
    """Of two processes that claim at once, exactly one gets each job; the other gets None, or the file is locked."""
    with crew.at_work():
        race = Race(crew, queue)
        state = race.prepare(ONE_AT_A_TIME)
        for number, job in enumerate(ONE_AT_A_TIME):
            ops = Claim(owners[0], job.now_ms, 60_000), Claim(owners[1], job.now_ms, 60_000)
            state = race.claim(state, ops, gated=number % 2 == 0)
            did["claims at once"] += 1


def check_sharing(crew: Crew, queue: Queue, owners: tuple[str, str], did: Counter[str]) -> None:
    """Two processes that run until there is no job left deliver each job once, with token 1."""
    with crew.at_work():
        for number in range(TRIES):
            path = queue.path.with_name(f"queue-{number}.db")
            if Race(crew, Queue(queue.worker, path)).share(owners):
                for figure in ("deliveries", "requests"):
                    did[figure] += len(ALL_AT_ONCE)
                return
        raise Unanswered(f"after {TRIES} tries the file is still locked too long for one of two processes")


@dataclass(frozen=True, slots=True)
class Race:
    """Two couriers at one queue; ``lines`` grow into the account that a Violation gives."""

    crew: Crew
    queue: Queue
    lines: list[str] = field(default_factory=list)

    def prepare(self, jobs: tuple[Enqueue, ...]) -> State:
        """A queue that holds these jobs; both couriers have opened it."""
        state = lease.EMPTY
        self.crew.call(*PAIR)
        with contextlib.closing(self.queue.worker.open_queue(self.queue.path)) as con:
            for job in jobs:
                state, _ = lease.step(state, job)
                self.lines.append(f"{source(job, 'con')}  # {show(perform(self.queue, con, job))}")
        self._agree("before two processes start", differences_at(self.queue, state))
        for name in PAIR:
            self._order(name, Reopen())
            if (replies := self._replies(name)) != [NOTHING]:
                self._fail("worker.open_queue in a process of its own", ", ".join(replies))
        return state

    # --- one job ------------------------------------------------------------------------------------------------------

    def claim(self, state: State, ops: tuple[Claim, Claim], *, gated: bool) -> State:
        """Both claim at once: released by an order each or, ``gated``, by the lock that both have come to wait for."""
        steps = [lease.step(state, op) for op in ops]
        tickets = [text(reply) for _, reply in steps]
        replies = next((got for got in self._rounds(ops, gated=gated) if got != [LOCKED_OUT, LOCKED_OUT]), None)
        if replies is None:
            raise Unanswered(f"after {TRIES} tries the file is still locked for both of two processes")
        for name, op, reply in zip(PAIR, ops, replies, strict=True):
            self.lines.append(f"# {name} process: {source(op, 'con')}  # {reply}")
        when, what = "two processes claim at once", " and ".join(replies)
        if replies == tickets:
            self._fail(when, f"both hold one job: {what}")
        winner = next((i for i in (0, 1) if replies[i] == tickets[i] and replies[1 - i] in (NOTHING, LOCKED_OUT)), None)
        if winner is None:
            self._fail(when, f"{what}, must be {tickets[0]} and {NOTHING}, or the other way round")
        after = steps[winner][0]
        self._agree(when, differences_at(self.queue, after, writing=True))
        return after

    def _rounds(self, ops: tuple[Claim, Claim], *, gated: bool) -> Iterator[list[str]]:
        for _ in range(TRIES):
            with self._locked() if gated else contextlib.nullcontext():
                for name, op in zip(PAIR, ops, strict=True):
                    self._order(name, op)
                words = [self.crew.report(name, "writes") for name in PAIR]
            ends = [
                word if word[0] == "ended" else self.crew.report(name) for name, word in zip(PAIR, words, strict=True)
            ]
            yield [reply for _, (reply,), _ in ends]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.closing(connect(self.queue.path)) as con:
            con.execute("BEGIN IMMEDIATE").close()
            yield
            con.execute("ROLLBACK").close()

    # --- all jobs -----------------------------------------------------------------------------------------------------

    def share(self, owners: tuple[str, str]) -> bool:
        """Whether both emptied the queue and neither found it locked too long; a Violation if any job went wrong."""
        state, kept = self.prepare(ALL_AT_ONCE), self.queue.path.with_suffix(".inbox")
        self.crew.script(kept)
        for name, owner in zip(PAIR, owners, strict=True):
            self._order(name, RunOnce(owner, 0, 1), runs=len(state.jobs) + TRIES)
            self.lines.append(f"# {name} process, until it returns None: {run_file(RunOnce(owner, 0, 1))}")
        replies = Counter(reply for name in PAIR for reply in self._replies(name))
        runs = Counter(text(Return(Ran(job.id, 1, "done"))) for job in state.jobs)
        for reply in replies - runs - Counter({NOTHING: 2, LOCKED_OUT: replies[LOCKED_OUT]}):
            self._fail(BOTH, f"run_file: {reply}, {replies[reply]} times, must be {runs[reply]}")
        if LOCKED_OUT in replies:
            return False
        self._settle(state, kept)
        return True

    def _settle(self, state: State, kept: Path) -> None:
        bodies = Counter(json.dumps({"id": job.id, "qty": job.qty}) for job in state.jobs)
        seen = Counter(request.body for request in self.crew.log())
        for body in (seen - bodies) + (bodies - seen):
            self._fail(BOTH, f"the receiver got {body} {seen[body]} times, must get it {bodies[body]} times")
        held = Inbox(tuple((job.id, job.qty) for job in state.jobs), sum(job.qty for job in state.jobs))
        for _ in state.jobs:
            state, _ = lease.step(state, RunOnce("either", 0, 1))
        self._agree(BOTH, differences_at(self.queue, state, writing=True))
        if (got := inbox.read(kept)) != held:
            raise Unanswered(f"the receiver got the right requests, but its inbox holds {got}, must hold {held}")

    # --- one at a time ------------------------------------------------------------------------------------------------

    def _order(self, name: str, op: Op, runs: int = 1) -> None:
        self.crew.order(name, Order(str(self.queue.path), repr(op), self.crew.port, patience(), runs))

    def _replies(self, name: str) -> list[str]:
        replies: list[str] = self.crew.report(name)[1]
        return replies

    def _agree(self, when: str, difference: str) -> None:
        if difference:
            self._fail(when, difference)

    def _fail(self, when: str, what: str) -> NoReturn:
        raise Violation(f"{when}: {what}", self.lines)
