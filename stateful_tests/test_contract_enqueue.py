"""Enqueue: a new job, the same job again, and a conflict."""

from __future__ import annotations

import pytest

from model.contract import CONFLICT, Claim, Enqueue, Finish, Redrive, Ticket
from stateful_tests.clauses import EARLIEST, LATEST, NEW, STATUSES, Fixture, Program, T, follow, holds

pytestmark = pytest.mark.layer("contract")

CLAUSES: dict[str, Program] = {
    "a new job is pending from now until its deadline": (
        (Enqueue("a", 5, 7, 100, 2), True),
        holds("a", qty=5, status="pending", attempts=0, max_attempts=2, token=0, available_at=7, deadline=107),
        holds("a", owner=None, lease_until=None, reason=None),
    ),
    "the smallest values are a job": (
        (Enqueue("a", 1, EARLIEST, 1, 1), True),
        holds("a", qty=1, max_attempts=1, available_at=0, deadline=1),
    ),
    "the largest values are a job": (
        (Enqueue("a" * 64, 1000, LATEST, 60_000, 16), True),
        holds("a" * 64, qty=1000, max_attempts=16, available_at=10**15 - 60_000, deadline=10**15),
    ),
    "every id is a job of its own": (
        (Enqueue("a", 5, 0, 100), True),
        (Enqueue("A", 6, 0, 100), True),
        (Enqueue("1", 5, 0, 100), True),
        (Enqueue("01", 7, 0, 100), True),
        (Enqueue("_", 5, 0, 100), True),
        (Enqueue("-", 8, 0, 100), True),
        (Enqueue("a", 5, 0, 100), False),
    ),
    "a job whose deadline has passed is still known": (
        (Enqueue("a", 5, 0, 10), True),
        (Enqueue("a", 5, 10, 10), False),
        holds("a", status="pending", deadline=10),
    ),
    "a used up attempt stays used up": (
        (Enqueue("a", 5, 0, 50_000, 2), True),
        (Claim("w", 0, 100), T),
        (Finish(T, "retry", 1), "pending"),
        (Enqueue("a", 5, 9, 9, 16), False),
        holds("a", status="pending", attempts=1, max_attempts=2, token=1, available_at=1, deadline=50_000),
    ),
    "a large quantity is the same again": (
        (Enqueue("a", 1000, 0, 50_000), True),
        (Enqueue("a", 999 + 1, 0, 50_000), False),
        (Claim("w", 0, 100), Ticket("a", 1000, "w", 1, 1, 100)),
        (Finish(Ticket("a", 1000, "w", 1, 1, 100), "ok", 1), "done"),
        (Enqueue("a", 999 + 1, 0, 50_000), False),
    ),
    "what was settled long ago is still known": (
        *STATUSES["done"],
        (Enqueue("b", 6, 0, 50_000), True),
        (Claim("w", 100, 100), Ticket("b", 6, "w", 1, 1, 200)),
        (Finish(Ticket("b", 6, "w", 1, 1, 200), "permanent", 100), "dead"),
        (Enqueue("c", 7, LATEST, 60_000), True),
        (Claim("w", LATEST, 100), Ticket("c", 7, "w", 1, 1, LATEST + 100)),
        (Redrive("b", LATEST, 100, "n"), True),
        (Enqueue("a", 5, LATEST, 60_000), False),
        holds("a", status="done"),
    ),
    "another connection knows the job as well": (
        *NEW,
        (Enqueue("a", 5, 0, 50_000), False, 2),
        (Enqueue("a", 6, 0, 50_000), CONFLICT, 2),
        (Enqueue("b", 6, 0, 50_000), True, 2),
        (Claim("w", 0), Ticket("a", 5, "w", 1, 1, 1000)),
    ),
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_enqueue(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(connections=2), CLAUSES[clause])


@pytest.mark.parametrize("status", STATUSES)
def test_the_same_job_again_changes_nothing(lockstep: Fixture, status: str) -> None:
    again = ((Enqueue("a", 5, 20, 9, 16), False), (Enqueue("a", 5, 20, 60_000, 1), False))
    follow(lockstep(), (*STATUSES[status], *again, holds("a", max_attempts=3, deadline=50_000)))


@pytest.mark.parametrize("status", STATUSES)
def test_another_quantity_is_a_conflict(lockstep: Fixture, status: str) -> None:
    other = ((Enqueue("a", 4, 20, 9, 16), CONFLICT), (Enqueue("a", 6, 0, 50_000), CONFLICT))
    follow(lockstep(), (*STATUSES[status], *other, holds("a", qty=5, max_attempts=3, deadline=50_000)))
