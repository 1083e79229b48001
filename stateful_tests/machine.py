"""The stateful machine: one rule for each operation, on several connections to one file, with clocks that jump.

The comparison is made inside the rule, by ``Lockstep``, so that a failing program tells one story.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from model.contract import Claim, Enqueue, Finish, Op, Planted, Redrive, Reopen, Return, RunOnce, Send, Ticket
from model.queue import Queue, Worker
from stateful_tests import strategies as draw
from stateful_tests.lockstep import Lockstep, Transcript

CONNECTIONS = 3
Ending = str | tuple[int, Planted]


class QueueMachine(RuleBasedStateMachine):
    """Programs of operations, each performed on the model and on the module under test."""

    worker: Worker
    folder: Path
    did: Counter[str]
    transcript: Transcript

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.did["programs"] += 1
        self.path = self.folder / f"program-{self.did['programs']}.db"
        self.pair = Lockstep(Queue(self.worker, self.path), self.did, CONNECTIONS)
        self.epoch_ms = 0

    def teardown(self) -> None:
        self.pair.close()
        self.path.unlink(missing_ok=True)
        self.transcript.add(self.pair.lines)

    @initialize(epoch_ms=st.sampled_from(draw.EPOCHS))
    def begin(self, epoch_ms: int) -> None:
        self.epoch_ms = epoch_ms

    def at(self, choice: int) -> int:
        return draw.moment(self.pair.state, self.epoch_ms, choice)

    @rule(
        con=draw.connections,
        job_id=draw.ids,
        qty=draw.quantities,
        when=draw.choices,
        ttl_ms=draw.spans,
        budget=draw.budgets,
        ending=draw.endings,
    )
    def enqueue(self, con: int, job_id: str, qty: int, when: int, ttl_ms: int, budget: int, ending: Ending) -> None:
        self.pair.do(draw.ended(Enqueue(job_id, qty, self.at(when), ttl_ms, budget), ending), con)

    @rule(
        target=tickets,
        con=draw.connections,
        owner=draw.owners,
        when=draw.choices,
        lease_ms=draw.spans,
        ending=draw.endings,
    )
    def claim(self, con: int, owner: str, when: int, lease_ms: int, ending: Ending) -> Ticket | MultipleResults[Ticket]:
        return self.claimed(draw.ended(Claim(owner, self.at(when), lease_ms), ending), con)

    def claimed(self, op: Op, con: int) -> Ticket | MultipleResults[Ticket]:
        match self.pair.do(op, con):
            case Return(Ticket() as ticket):
                return ticket
        return multiple()

    @rule(
        con=draw.connections,
        ticket=tickets,
        spoil=draw.spoils,
        outcome=draw.outcomes,
        when=draw.choices,
        later=draw.choices,
        ending=draw.endings,
    )
    def finish(
        self, con: int, ticket: Ticket, spoil: str | None, outcome: str, when: int, later: int, ending: Ending
    ) -> None:
        now_ms = self.at(when)
        delay_ms = draw.delay(self.pair.state, ticket, now_ms, later)
        op = Finish(draw.spoiled(ticket, spoil), outcome, now_ms, delay_ms)
        self.pair.do(draw.ended(op, ending), con)

    @rule(con=draw.connections, job_id=draw.ids, when=draw.choices, ttl_ms=draw.spans, ending=draw.endings)
    def redrive(self, con: int, job_id: str, when: int, ttl_ms: int, ending: Ending) -> None:
        self.pair.do(draw.ended(Redrive(job_id, self.at(when), ttl_ms, "why"), ending), con)

    @rule(
        con=draw.connections,
        owner=draw.owners,
        first=draw.choices,
        second=draw.choices,
        send=draw.sends,
        jitter=draw.jitters,
        lease_ms=draw.spans,
        others=draw.others,
    )
    def run_once(
        self,
        con: int,
        owner: str,
        first: int,
        second: int,
        send: Send,
        jitter: float,
        lease_ms: int,
        others: list[Claim | Enqueue],
    ) -> None:
        during = tuple(replace(op, now_ms=self.at(op.now_ms)) for op in others)
        self.pair.do(RunOnce(owner, self.at(first), self.at(second), send, jitter, lease_ms, during), con)

    @rule(con=draw.connections)
    def reopen(self, con: int) -> None:
        self.pair.do(Reopen(), con)


def run(queue: type[QueueMachine], number: int, programs: int, steps: int) -> None:
    """Run ``programs`` programs of up to ``steps`` steps, all fixed by the seed ``number``.

    The shortest failing program arrives as a Violation.
    """
    run_state_machine_as_test(seed(number)(queue), settings=_settings(programs, steps))


def machine_for(worker: Worker, folder: Path, did: Counter[str], transcript: Transcript) -> type[QueueMachine]:
    """The machine over one module under test; its queue files lie in ``folder``, each for one program."""
    namespace = {"worker": worker, "folder": folder, "did": did, "transcript": transcript}
    return type("QueueMachine", (QueueMachine,), namespace)


def _settings(programs: int, steps: int) -> settings:
    """Everything that would make two runs with one seed differ is off, and so is all that measures the machine."""
    return settings(
        max_examples=programs,
        stateful_step_count=steps,
        database=None,
        derandomize=False,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
