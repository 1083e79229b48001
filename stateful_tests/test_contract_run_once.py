"""run_once: claim, send, finish; what each kind of send and each second reading of the clock leads to."""

from __future__ import annotations

import pytest

from model.contract import BAD_ACK, PLANTED, REFUSED, Claim, Enqueue, Finish, Ran, Redrive, RunOnce, Ticket
from stateful_tests.clauses import LATEST, NEW, Fixture, Program, T, follow, holds

pytestmark = pytest.mark.layer("contract")

ONE_ATTEMPT: Program = ((Enqueue("a", 5, 0, 50_000, 1), True),)
STILL_LEASED = holds("a", status="leased", owner="w", attempts=1, token=1, lease_until=1000)

SENDS: dict[str, Program] = {
    "no job is None": ((RunOnce("w", 0, 0), None),),
    "no due job is None": ((Enqueue("a", 5, 10, 100), True), (RunOnce("w", 9, 9), None), holds("a", status="pending")),
    "a doomed job is buried all the same": (
        (Enqueue("a", 5, 0, 10), True),
        (RunOnce("w", 10, 10), None),
        holds("a", status="dead", reason="deadline"),
    ),
    "True is done": (
        *NEW,
        (RunOnce("w", 0, 7), Ran("a", 1, "done")),
        holds("a", status="done", reason=None, attempts=1, available_at=7, owner=None, lease_until=None),
    ),
    "Retryable is pending after the delay": (
        *NEW,
        (RunOnce("w", 0, 7, "retryable"), Ran("a", 1, "pending")),
        holds("a", status="pending", reason="retry", attempts=1, available_at=107),
    ),
    "Permanent is dead": (
        *NEW,
        (RunOnce("w", 0, 7, "permanent"), Ran("a", 1, "dead")),
        holds("a", status="dead", reason="permanent", available_at=7),
    ),
    "a bad ack leaves the job leased": (
        *NEW,
        (RunOnce("w", 0, 7, "bad-ack"), BAD_ACK),
        STILL_LEASED,
        (Claim("x", 999), None),
        (Claim("x", 1000, 10), Ticket("a", 5, "x", 2, 2, 1010)),
    ),
    "any other error leaves the job leased": (
        *NEW,
        (RunOnce("w", 0, 7, "error"), PLANTED),
        STILL_LEASED,
        (RunOnce("x", 1000, 1000), Ran("a", 2, "done")),
    ),
    "a retry of the last attempt is dead": (
        *ONE_ATTEMPT,
        (RunOnce("w", 0, 7, "retryable"), Ran("a", 1, "dead")),
        holds("a", reason="exhausted", available_at=7),
    ),
    "a retry that meets the deadline is dead": (
        (Enqueue("a", 5, 0, 107), True),
        (RunOnce("w", 0, 7, "retryable"), Ran("a", 1, "dead")),
        holds("a", reason="deadline", available_at=7),
    ),
    "a retry just before the deadline is pending": (
        (Enqueue("a", 5, 0, 108), True),
        (RunOnce("w", 0, 7, "retryable"), Ran("a", 1, "pending")),
        holds("a", available_at=107),
    ),
    "each retry waits twice as long": (
        (Enqueue("a", 5, 0, 50_000, 16), True),
        (RunOnce("w", 0, 0, "retryable"), Ran("a", 1, "pending")),
        holds("a", available_at=100),
        (RunOnce("w", 100, 100, "retryable"), Ran("a", 2, "pending")),
        holds("a", available_at=300),
        (RunOnce("w", 300, 300, "retryable"), Ran("a", 3, "pending")),
        holds("a", available_at=700),
        (RunOnce("w", 700, 700, "retryable"), Ran("a", 4, "pending")),
        holds("a", available_at=1500),
        (RunOnce("w", 1500, 1500, "retryable"), Ran("a", 5, "pending")),
        holds("a", available_at=2500),
        *((RunOnce("w", 1000 * n, 1000 * n, "retryable"), Ran("a", n, "pending")) for n in range(6, 16)),
        holds("a", available_at=16_000),
        (RunOnce("w", 16_000, 16_000, "retryable"), Ran("a", 16, "dead")),
    ),
    "the delay counts attempts, not tokens": (
        *NEW,
        (RunOnce("w", 0, 0, "permanent"), Ran("a", 1, "dead")),
        (Redrive("a", 0, 50_000, "n"), True),
        (RunOnce("w", 0, 0, "retryable"), Ran("a", 2, "pending")),
        holds("a", available_at=100, attempts=1),
    ),
    "jitter takes a share of the delay": (
        *NEW,
        (RunOnce("w", 0, 7, "retryable", 0.29), Ran("a", 1, "pending")),
        holds("a", available_at=35),
    ),
    "no jitter is no delay": (
        *NEW,
        (RunOnce("w", 0, 7, "retryable", 0), Ran("a", 1, "pending")),
        holds("a", available_at=7),
    ),
    "the lease is as long as asked": (
        *NEW,
        (RunOnce("w", 0, 7, "bad-ack", 1.0, 20), BAD_ACK),
        holds("a", lease_until=20),
    ),
}

CLOCKS: dict[str, Program] = {
    "the clock may stand still": (*NEW, (RunOnce("w", 5, 5), Ran("a", 1, "done")), holds("a", available_at=5)),
    "just before lease_until is in time": (*NEW, (RunOnce("w", 0, 999), Ran("a", 1, "done"))),
    "lease_until itself is stale": (
        *NEW,
        (RunOnce("w", 0, 1000), Ran("a", 1, "stale")),
        STILL_LEASED,
        (RunOnce("x", 1000, 1000), Ran("a", 2, "done")),
    ),
    "a retry can be stale": (*NEW, (RunOnce("w", 0, 1000, "retryable"), Ran("a", 1, "stale")), STILL_LEASED),
    "a permanent failure can be stale": (
        *NEW,
        (RunOnce("w", 0, 1001, "permanent"), Ran("a", 1, "stale")),
        STILL_LEASED,
    ),
    "the deadline itself is stale": ((Enqueue("a", 5, 0, 10), True), (RunOnce("w", 0, 10), Ran("a", 1, "stale"))),
    "a clock that goes back by one is refused": (
        *NEW,
        (RunOnce("w", 1000, 999), REFUSED),
        holds("a", status="leased", owner="w", attempts=1, token=1, lease_until=2000),
        (Claim("x", 500), None),
        (Claim("x", 2000, 1), Ticket("a", 5, "x", 2, 2, 2001)),
    ),
    "a clock that goes back is refused after Retryable": (*NEW, (RunOnce("w", 9, 8, "retryable"), REFUSED)),
    "a clock that goes back is refused after Permanent": (*NEW, (RunOnce("w", 9, 0, "permanent"), REFUSED)),
    "a second reading out of bounds is refused": (
        *NEW,
        (RunOnce("w", 0, LATEST + 1), REFUSED),
        STILL_LEASED,
        (RunOnce("x", 1000, -1), REFUSED),
        holds("a", status="leased", owner="x", token=2),
    ),
    "a first reading out of bounds is refused": (
        *NEW,
        (RunOnce("w", -1, 0), REFUSED),
        (RunOnce("w", LATEST + 1, LATEST), REFUSED),
        holds("a", status="pending", attempts=0, token=0),
    ),
    "the latest time is a time": (
        (Enqueue("a", 5, LATEST, 60_000), True),
        (RunOnce("w", LATEST, LATEST), Ran("a", 1, "done")),
    ),
}

MEANWHILE: dict[str, Program] = {
    "a job that arrives is another job": (
        *NEW,
        (RunOnce("w", 0, 7, meanwhile=(Enqueue("b", 6, 0, 50_000),)), Ran("a", 1, "done")),
        holds("a", status="done"),
        holds("b", status="pending"),
    ),
    "a job that another worker took over is stale": (
        *NEW,
        (RunOnce("w", 0, 50, lease_ms=100, meanwhile=(Claim("x", 100),)), Ran("a", 1, "stale")),
        holds("a", status="leased", owner="x", token=2),
    ),
    "the owner alone does not hold a job": (
        *NEW,
        (RunOnce("w", 0, 50, lease_ms=100, meanwhile=(Claim("w", 100),)), Ran("a", 1, "stale")),
        holds("a", status="leased", owner="w", token=2),
    ),
    "a job that was finished is stale": (
        *NEW,
        (RunOnce("w", 0, 50, "retryable", 1.0, 100, (Finish(T, "ok", 10),)), Ran("a", 1, "stale")),
        holds("a", status="done", reason=None, available_at=10),
    ),
    "a job that was redriven is stale": (
        *NEW,
        (
            RunOnce("w", 0, 50, lease_ms=100, meanwhile=(Finish(T, "permanent", 10), Redrive("a", 10, 1000, "n"))),
            Ran("a", 1, "stale"),
        ),
        holds("a", status="pending", attempts=0, token=1),
    ),
}


@pytest.mark.parametrize("clause", SENDS)
def test_run_once(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(), SENDS[clause])


@pytest.mark.parametrize("clause", CLOCKS)
def test_run_once_reads_its_clock_again(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(), CLOCKS[clause])


@pytest.mark.parametrize("clause", MEANWHILE)
def test_run_once_keeps_its_ticket(lockstep: Fixture, clause: str) -> None:
    follow(lockstep(), MEANWHILE[clause])
