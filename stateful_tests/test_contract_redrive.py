"""Redrive: a dead job lives again, with a row that says so, and its token goes on counting."""

from __future__ import annotations

import pytest

from model.contract import REFUSED, Claim, Enqueue, Finish, Redrive, Ticket
from stateful_tests.clauses import (
    LAST_ATTEMPT,
    LATEST,
    LEASED,
    NEW,
    STATUSES,
    Fixture,
    Program,
    T,
    audited,
    follow,
    holds,
)

pytestmark = pytest.mark.layer("contract")

DEAD = STATUSES["dead"]

CLAUSES: dict[str, Program] = {
    "a dead job is pending from now": (
        *DEAD,
        (Redrive("a", 70, 1000, "note"), True),
        holds("a", qty=5, status="pending", attempts=0, max_attempts=3, token=1, available_at=70, deadline=1070),
        holds("a", owner=None, lease_until=None, reason=None),
        audited(("a", 1, 70, "note")),
    ),
    "an exhausted job has all its attempts again": (
        *LAST_ATTEMPT,
        (Claim("w", 100), None),
        (Redrive("a", 100, 1000, "n"), True),
        holds("a", attempts=0, max_attempts=1),
        (Claim("w", 100, 100), Ticket("a", 5, "w", 2, 1, 200)),
        audited(("a", 1, 100, "n")),
    ),
    "a job past its deadline has time again": (
        (Enqueue("a", 5, 0, 10), True),
        (Claim("w", 10), None),
        (Redrive("a", 10, 10, "n"), True),
        holds("a", token=0, available_at=10, deadline=20),
        (Claim("w", 19, 100), Ticket("a", 5, "w", 1, 1, 20)),
        audited(("a", 0, 10, "n")),
    ),
    "a job is redriven as often as it dies": (
        *NEW,
        *(
            step
            for token in range(1, 41)
            for step in (
                (Claim("w", token, 100), Ticket("a", 5, "w", token, 1, token + 100)),
                (Finish(Ticket("a", 5, "w", token, 1, token + 100), "permanent", token), "dead"),
                (Redrive("a", token, 1000, "n"), True),
            )
        ),
        holds("a", token=40, attempts=0),
        audited(*(("a", token, token, "n") for token in range(1, 41))),
    ),
    "the job is due at its redrive, not before": (
        *DEAD,
        (Redrive("a", 70, 1000, "n"), True),
        (Claim("w", 69), None),
        (Claim("w", 70), Ticket("a", 5, "w", 2, 1, 1070)),
    ),
    "the token goes on, the attempts start anew": (
        *LEASED,
        (Claim("w", 100, 100), Ticket("a", 5, "w", 2, 2, 200)),
        (Finish(Ticket("a", 5, "w", 2, 2, 200), "permanent", 150), "dead"),
        (Redrive("a", 150, 1000, "n"), True),
        holds("a", attempts=0, token=2),
        (Claim("w", 150, 50), Ticket("a", 5, "w", 3, 1, 200)),
        audited(("a", 2, 150, "n")),
    ),
    "every redrive leaves a row of its own": (
        *DEAD,
        (Redrive("a", 70, 1000, "same"), True),
        (Claim("w", 70, 10), Ticket("a", 5, "w", 2, 1, 80)),
        (Finish(Ticket("a", 5, "w", 2, 1, 80), "permanent", 70), "dead"),
        (Redrive("a", 70, 1000, "same"), True),
        audited(("a", 1, 70, "same"), ("a", 2, 70, "same")),
    ),
    "the job keeps its place": (
        *DEAD,
        (Enqueue("b", 6, 60, 1000), True),
        (Redrive("a", 70, 1000, "n"), True),
        (Claim("w", 70, 30), Ticket("a", 5, "w", 2, 1, 100)),
    ),
    "no other job is touched": (
        *DEAD,
        (Enqueue("b", 6, 50, 10), True),
        (Claim("w", 60), None),
        (Redrive("b", 70, 1000, "n"), True),
        holds("a", status="dead", reason="permanent"),
        audited(("b", 0, 70, "n")),
    ),
    "the clock may be behind": (*DEAD, (Redrive("a", 0, 1, "n"), True), holds("a", available_at=0, deadline=1)),
    "the latest time has room for it": (*DEAD, (Redrive("a", LATEST, 60_000, "n"), True), holds("a", deadline=10**15)),
    "a redriven job is still the same job": (
        *DEAD,
        (Redrive("a", 70, 1000, "n"), True),
        (Enqueue("a", 5, 80, 9), False),
        holds("a", deadline=1070),
    ),
    "a job is redriven once": (
        *DEAD,
        (Redrive("a", 70, 1000, "n"), True),
        (Redrive("a", 70, 1000, "n"), REFUSED),
        (Redrive("a", 70, 1000, "n"), REFUSED, 2),
        audited(("a", 1, 70, "n")),
    ),
    "a job that is not there is refused": (*NEW, (Redrive("b", 70, 1000, "n"), REFUSED), audited()),
    "the case of an id matters": (*DEAD, (Redrive("A", 70, 1000, "n"), REFUSED), audited()),
    "the new ticket finishes": (
        *DEAD,
        (Redrive("a", 60, 1000, "n"), True),
        (Claim("w", 60, 40), Ticket("a", 5, "w", 2, 1, 100)),
        (Finish(T, "ok", 70), False),
        (Finish(Ticket("a", 5, "w", 2, 1, 100), "ok", 70), "done"),
    ),
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_redrive(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(connections=2), CLAUSES[clause])


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "dead"])
def test_only_a_dead_job_is_redriven(lockstep: Fixture, status: str) -> None:
    follow(lockstep(), (*STATUSES[status], (Redrive("a", 70, 1000, "n"), REFUSED), audited()))
