"""Claim: quarantine first, then the lowest seq that is due, then the reply."""

from __future__ import annotations

import pytest

from model.contract import Claim, Enqueue, Finish, Redrive, Ticket
from stateful_tests.clauses import LAST_ATTEMPT, LATEST, LEASED, NEW, STATUSES, Fixture, Program, T, follow, holds

pytestmark = pytest.mark.layer("contract")

AGAIN = Ticket("a", 5, "x", 2, 2, 200)

SELECT: dict[str, Program] = {
    "an empty queue has no job": ((Claim("w", 0), None),),
    "a claim writes owner, lease, attempt and token": (
        *NEW,
        (Claim("w", 7, 100), Ticket("a", 5, "w", 1, 1, 107)),
        holds("a", qty=5, status="leased", attempts=1, max_attempts=3, token=1, available_at=0, deadline=50_000),
        holds("a", owner="w", lease_until=107, reason=None),
    ),
    "a job is not due before available_at": ((Enqueue("a", 5, 10, 100), True), (Claim("w", 9), None)),
    "a job is due at available_at itself": (
        (Enqueue("a", 5, 10, 100), True),
        (Claim("w", 10, 1), Ticket("a", 5, "w", 1, 1, 11)),
    ),
    "a job is due after available_at": (
        (Enqueue("a", 5, 10, 100), True),
        (Claim("w", 11, 1), Ticket("a", 5, "w", 1, 1, 12)),
    ),
    "a retried job waits for its new available_at": (
        *LEASED,
        (Finish(T, "retry", 50, 10), "pending"),
        (Claim("x", 59, 100), None),
        (Claim("x", 60, 100), Ticket("a", 5, "x", 2, 2, 160)),
        holds("a", status="leased", available_at=60, reason=None),
    ),
    "a lease is not over before lease_until": (*LEASED, (Claim("x", 99, 100), None), holds("a", owner="w")),
    "a lease is over at lease_until itself": (*LEASED, (Claim("x", 100, 100), AGAIN), holds("a", owner="x")),
    "a lease is over after lease_until": (*LEASED, (Claim("x", 101, 100), Ticket("a", 5, "x", 2, 2, 201))),
    "the same owner gets a new token too": (*LEASED, (Claim("w", 100, 100), Ticket("a", 5, "w", 2, 2, 200))),
    "the same owner gets a leased job only once": (*LEASED, (Claim("w", 0, 100), None), (Claim("w", 0, 100), None, 2)),
    "a clock that is behind does not end a lease": (
        (Enqueue("a", 5, 0, 50_000), True),
        (Claim("w", 500, 100), Ticket("a", 5, "w", 1, 1, 600)),
        (Claim("x", 0, 100), None),
    ),
    "the lowest seq comes first, not the earliest": (
        (Enqueue("b", 1, 50, 100), True),
        (Enqueue("a", 2, 10, 100), True),
        (Claim("w", 50, 10), Ticket("b", 1, "w", 1, 1, 60)),
        (Claim("w", 50, 10), Ticket("a", 2, "w", 1, 1, 60)),
    ),
    "an expired lease before a new job": (
        *LEASED,
        (Enqueue("b", 6, 0, 50_000), True),
        (Claim("x", 100, 100), AGAIN),
        (Claim("x", 100, 100), Ticket("b", 6, "x", 1, 1, 200)),
    ),
    "a new job before a later expired lease": (
        (Enqueue("b", 6, 60, 1000), True),
        *LEASED,
        (Claim("x", 100, 100), Ticket("b", 6, "x", 1, 1, 200)),
        (Claim("x", 100, 100), AGAIN),
    ),
    "a retried job keeps its place": (
        *NEW,
        (Enqueue("b", 6, 0, 50_000), True),
        (Claim("w", 0, 100), T),
        (Finish(T, "retry", 50), "pending"),
        (Claim("x", 50, 50), Ticket("a", 5, "x", 2, 2, 100)),
    ),
    "of 301 jobs the only due one": (
        *((Enqueue(f"j{number}", 1, 10**6, 60_000), True) for number in range(300)),
        (Enqueue("early", 9, 0, 60_000), True),
        (Claim("w", 1), Ticket("early", 9, "w", 1, 1, 1001)),
        (Claim("w", 1), None),
    ),
    "behind finished jobs the open one": (
        *STATUSES["done"],
        (Enqueue("b", 6, 60, 1000), True),
        (Claim("x", 60, 10), Ticket("b", 6, "x", 1, 1, 70)),
    ),
    "a done job is never due": (*STATUSES["done"], (Claim("x", 40_000), None), (Claim("x", 50_000), None)),
    "a dead job is never due": (*STATUSES["dead"], (Claim("x", 40_000), None), (Claim("x", 50_000), None)),
    "a lease ends before the deadline": (
        (Enqueue("a", 5, 0, 1001), True),
        (Claim("w", 0, 1000), Ticket("a", 5, "w", 1, 1, 1000)),
    ),
    "a lease ends on the deadline": (
        (Enqueue("a", 5, 0, 1000), True),
        (Claim("w", 0, 1000), Ticket("a", 5, "w", 1, 1, 1000)),
    ),
    "a lease is cut to the deadline": (
        (Enqueue("a", 5, 0, 999), True),
        (Claim("w", 0, 1000), Ticket("a", 5, "w", 1, 1, 999)),
        holds("a", lease_until=999),
    ),
    "a lease can be a single millisecond": (
        *NEW,
        (Claim("w", 0, 1), Ticket("a", 5, "w", 1, 1, 1)),
        (Claim("x", 1, 1), Ticket("a", 5, "x", 2, 2, 2)),
    ),
    "the latest time has room for a lease": (
        (Enqueue("a", 5, LATEST, 60_000), True),
        (Claim("w", LATEST, 60_000), Ticket("a", 5, "w", 1, 1, 10**15)),
        (Finish(Ticket("a", 5, "w", 1, 1, 10**15), "ok", LATEST), "done"),
    ),
    "two connections get two jobs": (
        *NEW,
        (Enqueue("b", 6, 0, 50_000), True),
        (Claim("w", 0, 100), T),
        (Claim("w", 0, 100), Ticket("b", 6, "w", 1, 1, 100), 2),
        (Claim("w", 0, 100), None),
    ),
}

QUARANTINE: dict[str, Program] = {
    "a job lives until just before its deadline": (
        (Enqueue("a", 5, 0, 10), True),
        (Claim("w", 9), Ticket("a", 5, "w", 1, 1, 10)),
    ),
    "a job is dead at its deadline itself": (
        (Enqueue("a", 5, 0, 10), True),
        (Claim("w", 10), None),
        holds("a", qty=5, status="dead", reason="deadline", attempts=0, max_attempts=3, token=0, available_at=0),
        holds("a", deadline=10, owner=None, lease_until=None),
    ),
    "a job is dead after its deadline": (
        (Enqueue("a", 5, 0, 10), True),
        (Claim("w", 11), None),
        holds("a", status="dead", reason="deadline"),
    ),
    "a lease that ran into its deadline is dead": (
        (Enqueue("a", 5, 0, 10), True),
        (Claim("w", 4, 100), Ticket("a", 5, "w", 1, 1, 10)),
        (Claim("x", 9), None),
        holds("a", status="leased"),
        (Claim("x", 10), None),
        holds("a", status="dead", reason="deadline", attempts=1, token=1, owner=None, lease_until=None),
    ),
    "an expired last attempt is exhausted": (
        *LAST_ATTEMPT,
        (Claim("x", 100), None),
        holds("a", qty=5, status="dead", reason="exhausted", attempts=1, max_attempts=1, token=1, available_at=0),
        holds("a", deadline=50_000, owner=None, lease_until=None),
    ),
    "a running last attempt is left alone": (
        *LAST_ATTEMPT,
        (Claim("x", 99), None),
        holds("a", status="leased", owner="w", lease_until=100),
        (Finish(T, "ok", 99), "done"),
    ),
    "the last of several attempts is exhausted": (
        *LEASED,
        (Claim("x", 100, 100), AGAIN),
        (Claim("x", 200, 100), Ticket("a", 5, "x", 3, 3, 300)),
        (Claim("x", 299, 100), None),
        holds("a", status="leased", attempts=3),
        (Claim("x", 300, 100), None),
        holds("a", status="dead", reason="exhausted", attempts=3, token=3),
    ),
    "all sixteen attempts can be used": (
        (Enqueue("a", 5, 0, 50_000, 16), True),
        *((Claim("w", n - 1, 1), Ticket("a", 5, "w", n, n, n)) for n in range(1, 17)),
        (Claim("w", 16, 1), None),
        holds("a", status="dead", reason="exhausted", attempts=16, token=16),
    ),
    "the deadline comes before exhaustion": (
        (Enqueue("a", 5, 0, 100, 1), True),
        (Claim("w", 0, 1000), T),
        (Claim("x", 100), None),
        holds("a", status="dead", reason="deadline"),
    ),
    "exhausted is what an expired job is before its deadline": (
        (Enqueue("a", 5, 0, 101, 1), True),
        (Claim("w", 0, 100), T),
        (Claim("x", 100), None),
        holds("a", status="dead", reason="exhausted"),
    ),
    "a retried job dies at its deadline": (
        (Enqueue("a", 5, 0, 100), True),
        (Claim("w", 0), T),
        (Finish(T, "retry", 50, 49), "pending"),
        (Claim("w", 100), None),
        holds("a", status="dead", reason="deadline", available_at=99, attempts=1, token=1),
    ),
    "the quarantine of a claim of nothing is kept": (
        (Enqueue("a", 5, 0, 10), True),
        (Enqueue("b", 6, 100, 1000), True),
        (Claim("w", 50), None),
        holds("a", status="dead", reason="deadline"),
        holds("b", status="pending"),
        (Claim("w", 50), None, 2),
    ),
    "every doomed job dies in one claim": (
        (Enqueue("a", 5, 0, 100), True),
        (Enqueue("b", 1, 0, 50_000, 1), True),
        (Claim("w", 0, 1000), T),
        (Claim("w", 0, 60), Ticket("b", 1, "w", 1, 1, 60)),
        (Enqueue("c", 2, 0, 50_000), True),
        (Enqueue("d", 3, 0, 90), True),
        (Enqueue("e", 4, 0, 101), True),
        (Claim("x", 100, 1), Ticket("c", 2, "x", 1, 1, 101)),
        holds("a", status="dead", reason="deadline"),
        holds("b", status="dead", reason="exhausted"),
        holds("d", status="dead", reason="deadline"),
        holds("e", status="pending"),
    ),
    "a dead job keeps its first reason": (
        *LAST_ATTEMPT,
        (Claim("x", 100), None),
        (Claim("x", 50_000), None),
        holds("a", status="dead", reason="exhausted"),
    ),
    "a done job does not die": (*STATUSES["done"], (Claim("x", 50_000), None), holds("a", status="done", reason=None)),
    "a redriven job dies at its new deadline": (
        *STATUSES["dead"],
        (Redrive("a", 60, 10, "n"), True),
        (Claim("x", 70), None),
        holds("a", status="dead", reason="deadline", token=1, attempts=0),
    ),
}


@pytest.mark.parametrize("clause", SELECT)
def test_claim(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(connections=2), SELECT[clause])


@pytest.mark.parametrize("clause", QUARANTINE)
def test_quarantine(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(connections=2), QUARANTINE[clause])
