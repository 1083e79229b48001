"""The stateful machine: one rule for each operation, on several connections to one file, with clocks that jump.

The comparison is made inside the rule, by ``Lockstep``, so that a failing program tells one story. What is the same for
a store is in ``Machine``; the store's own rules are in ``stream_machine``.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
)

from model.contract import (
    Claim,
    Enqueue,
    Finish,
    Plain,
    Redrive,
    Reopen,
    Reply,
    Return,
    RunOnce,
    Send,
    Ticket,
    hooks_of,
)
from model.counterexample import Op as AnyOp
from model.counterexample import Violation
from stateful_tests import strategies as draw
from stateful_tests.lockstep import Lockstep, Transcript
from stateful_tests.replay import Judged
from stateful_tests.strategies import Ending

CONNECTIONS = 3


class Enough(BaseException):
    """Takes the end of a check's time past Hypothesis, which would ask the same again, without a limit."""

    def __init__(self, timeout: BaseException) -> None:
        self.timeout = timeout


class Machine(RuleBasedStateMachine):
    """Programs of operations, each performed on the model and on the module under test; a subclass has the rules."""

    judged: Judged
    folder: ClassVar[Path]
    did: ClassVar[Counter[str]]
    transcript: ClassVar[Transcript]
    found: ClassVar[list[Violation]]

    def __init__(self) -> None:
        super().__init__()
        self.did["programs"] += 1
        self.path = self.folder / f"program-{self.did['programs']}.db"
        try:
            self.pair: Lockstep[Any, Any] = Lockstep(self.judged(self.path), self.did, CONNECTIONS)
        except pytest.fail.Exception as timeout:
            raise Enough(timeout) from None

    def teardown(self) -> None:
        self.pair.close()
        self.path.unlink(missing_ok=True)
        self.transcript.add(self.pair.lines)
        if isinstance(timeout := sys.exception(), pytest.fail.Exception):
            raise Enough(timeout)

    def perform(self, op: AnyOp, con: int) -> Reply:
        """On the model and on the module under test."""
        try:
            return self.pair.do(op, con)
        except Violation as violation:
            self.found.append(violation)
            raise

    @rule(con=draw.connections)
    def reopen(self, con: int) -> None:
        self.perform(Reopen(), con)


class QueueMachine(Machine):
    """What a lease queue is asked."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.epoch_ms = 0

    @initialize(epoch_ms=st.sampled_from(draw.EPOCHS))
    def begin(self, epoch_ms: int) -> None:
        self.epoch_ms = epoch_ms

    def at(self, choice: int) -> int:
        return draw.moment(self.pair.state, self.epoch_ms, choice)

    def do(self, op: Plain, ending: Ending, con: int) -> Reply:
        whole = draw.ended(op, hooks_of(op), ending)
        return self.perform(whole, con)

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
        self.do(Enqueue(job_id, qty, self.at(when), ttl_ms, budget), ending, con)

    @rule(
        target=tickets,
        con=draw.connections,
        owner=draw.owners,
        when=draw.choices,
        lease_ms=draw.spans,
        ending=draw.endings,
    )
    def claim(self, con: int, owner: str, when: int, lease_ms: int, ending: Ending) -> Ticket | MultipleResults[Ticket]:
        match self.do(Claim(owner, self.at(when), lease_ms), ending, con):
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
        self.do(Finish(draw.spoiled(ticket, spoil), outcome, now_ms, delay_ms), ending, con)

    @rule(con=draw.connections, job_id=draw.ids, when=draw.choices, ttl_ms=draw.spans, ending=draw.endings)
    def redrive(self, con: int, job_id: str, when: int, ttl_ms: int, ending: Ending) -> None:
        self.do(Redrive(job_id, self.at(when), ttl_ms, "why"), ending, con)

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
        self.perform(RunOnce(owner, self.at(first), self.at(second), send, jitter, lease_ms, during), con)


M = TypeVar("M", bound=Machine)


def machine_for(rules: type[M], judged: Judged, folder: Path, did: Counter[str], transcript: Transcript) -> type[M]:
    """The machine of these rules over one module under test; its files lie in ``folder``, each for one program."""
    namespace = {"judged": staticmethod(judged), "folder": folder, "did": did, "transcript": transcript, "found": []}
    return type(rules.__name__, (rules,), {**namespace, "__module__": rules.__module__})


def rules_of(machine: type[Machine]) -> set[str]:
    """The names of its rules, inherited ones among them."""
    return {name for name in dir(machine) if hasattr(getattr(machine, name), "hypothesis_stateful_rule")}
