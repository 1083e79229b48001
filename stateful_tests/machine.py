"""The stateful machine: one rule for each operation, on several connections to one file, with clocks that jump.

The comparison is made inside the rule, by ``Lockstep``, so that a failing program tells one story. What is the same for
a store is in ``Machine``; the store's own rules are in ``stream_machine``.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar
from unittest import SkipTest

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, reproduce_failure, seed, settings
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase
from hypothesis.errors import DidNotReproduce
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
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
from stateful_tests.examples import blob_of
from stateful_tests.lockstep import Lockstep, Transcript
from stateful_tests.options import PROFILES
from stateful_tests.replay import Judged
from stateful_tests.strategies import Ending

CONNECTIONS = 3
VERSION: Final = hypothesis.__version__
NOTHING: Final = (DidNotReproduce, SkipTest)
"""What Hypothesis raises where what was saved does not fail, or nothing was."""
SAVED = 50
"""Hypothesis tries all the smallest examples that failed, and of those on the way to them no more than this."""


class _Enough(BaseException):
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
            raise _Enough(timeout) from None

    def teardown(self) -> None:
        self.pair.close()
        self.path.unlink(missing_ok=True)
        self.transcript.add(self.pair.lines)
        if isinstance(timeout := sys.exception(), pytest.fail.Exception):
            raise _Enough(timeout)

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


def run(
    machine: type[Machine], number: int, programs: int, steps: int, database: ExampleDatabase | None = None
) -> None:
    """Run ``programs`` programs of up to ``steps`` steps, all fixed by the seed ``number``.

    The shortest failing program arrives as a Violation; where the search for it comes to nothing, because it lasts too
    long or the module does not do the same twice, the shortest of those that were seen. ``database`` keeps it.
    """
    try:
        _search(seed(number)(machine), reproducible(programs, steps, database))
    except Violation as violation:
        violation.origin = origin(violation, f"class {machine.__name__}", number)
        raise


def run_saved(machine: type[Machine], number: int, database: ExampleDatabase | None, blob: str = "") -> None:
    """Run what failed before, by the database, or just the program that ``blob`` stands for."""
    if blob:
        machine = reproduce_failure(VERSION, blob.encode())(machine)
    try:
        with contextlib.suppress(*NOTHING):
            _search(seed(number)(machine), saved(database))
    except Violation as violation:
        violation.origin = origin(violation, f"class {machine.__name__}")
        raise


def _search(machine: type[Machine], how: settings) -> None:
    try:
        run_state_machine_as_test(machine, settings=how)
    except (Exception, pytest.fail.Exception, _Enough) as error:
        if machine.found and not isinstance(error, Violation):
            raise min(machine.found, key=lambda violation: len(violation.program)) from error
        if isinstance(error, _Enough):
            raise error.timeout from None
        raise


def origin(violation: Violation, where: str, number: int | None = None) -> str:
    """How Hypothesis finds it again: by its seed, and by its blob."""
    blob = blob_of(violation)
    by_seed = [] if number is None else [f"--hypothesis-seed={number}"]
    by_blob = [f"@reproduce_failure({VERSION!r}, {blob.encode()!r}) on {where}"] if blob else []
    return ", or ".join([*by_seed, *by_blob])


def machine_for(rules: type[M], judged: Judged, folder: Path, did: Counter[str], transcript: Transcript) -> type[M]:
    """The machine of these rules over one module under test; its files lie in ``folder``, each for one program."""
    namespace = {"judged": staticmethod(judged), "folder": folder, "did": did, "transcript": transcript, "found": []}
    return type(rules.__name__, (rules,), {**namespace, "__module__": rules.__module__})


def rules_of(machine: type[Machine]) -> set[str]:
    """The names of its rules, inherited ones among them."""
    return {name for name in dir(machine) if hasattr(getattr(machine, name), "hypothesis_stateful_rule")}


def reproducible(programs: int, steps: int = 1, database: ExampleDatabase | None = None) -> settings:
    """Everything that would make two runs with one seed differ is off, and so is all that measures the machine.

    What fails is saved to the database, but nothing is taken from it: see ``saved``.
    """
    return settings(
        max_examples=programs,
        stateful_step_count=steps,
        database=database,
        derandomize=False,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def saved(database: ExampleDatabase | None) -> settings:
    """Nothing is drawn: what the database holds is tried, whatever profile it was found under."""
    steps = max(profile.steps for profile in PROFILES.values())
    return settings(reproducible(SAVED, steps, database), phases=(Phase.reuse, Phase.shrink))
