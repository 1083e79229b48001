"""Finish: only the ticket that holds the job settles it, and only while its lease runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from model.contract import Claim, Enqueue, Finish, Redrive, Ticket
from stateful_tests.clauses import LAST_ATTEMPT, LATEST, LEASED, NEW, STATUSES, Fixture, Program, T, follow, holds

pytestmark = pytest.mark.layer("contract")

AGAIN = Ticket("a", 5, "w", 2, 2, 200)
OTHER = Ticket("b", 5, "w", 1, 1, 100)
SHORT: Program = ((Enqueue("a", 5, 0, 100), True), (Claim("w", 0, 1000), T))
TWO_LEASED: Program = (*LEASED, (Enqueue("b", 5, 0, 50_000), True), (Claim("w", 0, 100), OTHER))

SETTLE: dict[str, Program] = {
    "ok is done": (
        *LEASED,
        (Finish(T, "ok", 50), "done"),
        holds("a", qty=5, status="done", reason=None, attempts=1, max_attempts=3, token=1, available_at=50),
        holds("a", deadline=50_000, owner=None, lease_until=None),
    ),
    "permanent is dead": (
        *LEASED,
        (Finish(T, "permanent", 50), "dead"),
        holds("a", qty=5, status="dead", reason="permanent", attempts=1, max_attempts=3, token=1, available_at=50),
        holds("a", deadline=50_000, owner=None, lease_until=None),
    ),
    "retry is pending after the delay": (
        *LEASED,
        (Finish(T, "retry", 50, 10), "pending"),
        holds("a", qty=5, status="pending", reason="retry", attempts=1, max_attempts=3, token=1, available_at=60),
        holds("a", deadline=50_000, owner=None, lease_until=None),
    ),
    "retry without a delay is due at once": (
        *LEASED,
        (Finish(T, "retry", 50), "pending"),
        holds("a", available_at=50),
        (Claim("w", 50, 150), AGAIN),
    ),
    "a delay counts for retry alone": (
        *TWO_LEASED,
        (Finish(T, "ok", 50, 7), "done"),
        holds("a", available_at=50),
        (Finish(OTHER, "permanent", 50, 60_000), "dead"),
        holds("b", available_at=50, reason="permanent"),
    ),
    "the last attempt can still be ok": (*LAST_ATTEMPT, (Finish(T, "ok", 50), "done"), holds("a", reason=None)),
    "the last attempt can still be permanent": (
        *LAST_ATTEMPT,
        (Finish(T, "permanent", 50), "dead"),
        holds("a", reason="permanent"),
    ),
    "a retry of the last attempt is exhausted": (
        *LAST_ATTEMPT,
        (Finish(T, "retry", 50, 10), "dead"),
        holds("a", status="dead", reason="exhausted", available_at=50, attempts=1, owner=None, lease_until=None),
    ),
    "a retry of the last attempt but one is pending": (
        (Enqueue("a", 5, 0, 50_000, 2), True),
        (Claim("w", 0, 100), T),
        (Finish(T, "retry", 50, 10), "pending"),
        (Claim("w", 60, 140), AGAIN),
        (Finish(AGAIN, "retry", 199), "dead"),
        holds("a", reason="exhausted", attempts=2, token=2, available_at=199),
    ),
    "a retry that ends before the deadline is pending": (
        *SHORT,
        (Finish(T, "retry", 50, 49), "pending"),
        holds("a", available_at=99),
    ),
    "a retry that meets the deadline is dead": (
        *SHORT,
        (Finish(T, "retry", 50, 50), "dead"),
        holds("a", status="dead", reason="deadline", available_at=50),
    ),
    "a retry that passes the deadline is dead": (
        *SHORT,
        (Finish(T, "retry", 50, 51), "dead"),
        holds("a", reason="deadline", available_at=50),
    ),
    "the longest delay is added as it is": (
        (Enqueue("a", 5, LATEST - 60_000, 60_000), True),
        (Claim("w", LATEST - 60_000, 60_000), Ticket("a", 5, "w", 1, 1, LATEST)),
        (Finish(Ticket("a", 5, "w", 1, 1, LATEST), "retry", LATEST - 60_000, 59_999), "pending"),
        holds("a", available_at=LATEST - 1),
    ),
    "exhausted comes before the deadline": (
        (Enqueue("a", 5, 0, 100, 1), True),
        (Claim("w", 0, 1000), T),
        (Finish(T, "retry", 50, 60_000), "dead"),
        holds("a", reason="exhausted"),
    ),
    "no other job is touched": (
        *TWO_LEASED,
        (Finish(OTHER, "ok", 50), "done"),
        holds("a", status="leased", owner="w", lease_until=100),
        (Finish(T, "retry", 50), "pending"),
        holds("b", status="done"),
    ),
    "any connection may finish": (*LEASED, (Finish(T, "ok", 50), "done", 2)),
    "the first millisecond of a lease counts": (*LEASED, (Finish(T, "ok", 0), "done")),
    "a clock behind the claim still finishes": (
        *NEW,
        (Claim("w", 500, 100), Ticket("a", 5, "w", 1, 1, 600)),
        (Finish(Ticket("a", 5, "w", 1, 1, 600), "ok", 0), "done"),
        holds("a", available_at=0),
    ),
}

REFUSE: dict[str, Program] = {
    "a lease is over at lease_until itself": (*LEASED, (Finish(T, "ok", 100), False), (Finish(T, "ok", 99), "done")),
    "a lease is over after lease_until": (*LEASED, (Finish(T, "ok", 101), False), holds("a", status="leased")),
    "a job is over at its deadline": (*SHORT, (Finish(T, "ok", 100), False), (Finish(T, "ok", 99), "done")),
    "no outcome is taken late": (
        *LEASED,
        (Finish(T, "retry", 100), False),
        (Finish(T, "permanent", 100), False),
        holds("a", status="leased", owner="w", lease_until=100),
    ),
    "a second finish is refused": (
        *LEASED,
        (Finish(T, "ok", 50), "done"),
        (Finish(T, "permanent", 51), False),
        (Finish(T, "ok", 50), False),
        holds("a", status="done", reason=None, available_at=50),
    ),
    "a second finish after permanent is refused": (
        *STATUSES["dead"],
        (Finish(T, "ok", 51), False),
        holds("a", status="dead", reason="permanent"),
    ),
    "a second finish after retry is refused": (
        *STATUSES["pending again"],
        (Finish(T, "ok", 51), False),
        holds("a", status="pending", reason="retry"),
    ),
    "the old ticket is refused after a reclaim": (
        *LEASED,
        (Claim("w", 100, 100), AGAIN),
        (Finish(T, "ok", 99), False),
        (Finish(T, "ok", 150), False),
        (Finish(AGAIN, "ok", 150), "done"),
    ),
    "the old ticket is refused after a redrive": (
        (Enqueue("a", 1, 0, 60_000, 1), True),
        (Claim("w", 0, 100), Ticket("a", 1, "w", 1, 1, 100)),
        (Finish(Ticket("a", 1, "w", 1, 1, 100), "permanent", 1), "dead"),
        (Redrive("a", 1, 60_000, "n"), True),
        (Claim("w", 1, 99), Ticket("a", 1, "w", 2, 1, 100)),
        (Finish(Ticket("a", 1, "w", 1, 1, 100), "ok", 50), False),
        (Finish(Ticket("a", 1, "w", 2, 1, 100), "ok", 50), "done"),
    ),
    "the ticket of a quarantined job is refused": (
        *LAST_ATTEMPT,
        (Claim("x", 100), None),
        (Finish(T, "ok", 50), False),
        holds("a", status="dead", reason="exhausted"),
    ),
    "a job that is not there is refused": ((Finish(T, "ok", 50), False),),
    "a job that nobody claimed is refused": (*NEW, (Finish(T, "ok", 50), False), holds("a", status="pending")),
    "a ticket for another leased job is refused": (
        *TWO_LEASED,
        (Finish(replace(OTHER, qty=6), "ok", 50), False),
        (Claim("x", 100, 100), Ticket("a", 5, "x", 2, 2, 200)),
        (Finish(T, "ok", 50), False),
        holds("b", status="leased"),
    ),
}

WRONG_FIELDS: dict[str, tuple[Any, ...]] = {
    "id": ("b", "A"),
    "qty": (4, 6),
    "owner": ("x", "W"),
    "token": (2, 10**15),
    "attempt": (2, 16),
    "lease_until": (99, 101, 10**15),
}


@pytest.mark.parametrize("clause", SETTLE)
def test_finish(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(connections=2), SETTLE[clause])


@pytest.mark.parametrize("clause", REFUSE)
def test_finish_is_refused(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(), REFUSE[clause])


@pytest.mark.parametrize("field", WRONG_FIELDS)
def test_one_wrong_field_refuses_the_ticket(lockstep: Fixture, field: str) -> None:
    tickets = [replace(T, **{field: value}) for value in WRONG_FIELDS[field]]
    refused = [(Finish(ticket, outcome, 50), False) for ticket in tickets for outcome in ("ok", "retry", "permanent")]
    follow(lockstep(), (*LEASED, *refused, holds("a", status="leased"), (Finish(T, "ok", 50), "done")))


@pytest.mark.parametrize("field", ["token", "attempt", "lease_until"])
def test_a_smaller_number_refuses_the_ticket(lockstep: Fixture, field: str) -> None:
    ticket = replace(AGAIN, **{field: getattr(AGAIN, field) - 1})
    program = (*LEASED, (Claim("w", 100, 100), AGAIN), (Finish(ticket, "ok", 150), False), holds("a", status="leased"))
    follow(lockstep(), program)


@pytest.mark.parametrize("outcome", ["ok", "permanent"])
@pytest.mark.parametrize("delay_ms", [49_949, 49_950, 60_000])
def test_a_delay_matters_to_a_retry_alone(lockstep: Fixture, outcome: str, delay_ms: int) -> None:
    status = {"ok": "done", "permanent": "dead"}[outcome]
    follow(lockstep(), (*LEASED, (Finish(T, outcome, 50, delay_ms), status), holds("a", available_at=50)))
