"""Claim and finish on rows of every kind, as the clauses read: whoever wrote the rows, and however they got there."""

from __future__ import annotations

import itertools

import pytest

from model import lease
from model.contract import Claim, Finish, Job, Return, State, Ticket
from model.counterexample import differences, source
from stateful_tests.guard import QueueGuard

pytestmark = pytest.mark.layer("contract")

NOW = 100
AROUND = (NOW - 1, NOW, NOW + 1)
COLUMNS = ", ".join(Job._fields)


def every_kind() -> list[Job]:
    """Each status, with attempts, available_at, deadline and lease_until on either side of their limits."""
    rows: list[Job] = []
    for status, attempts, available_at, deadline, lease_until in itertools.product(
        ("pending", "leased", "done", "dead"), (0, 1, 2), AROUND, (*AROUND, 5000), AROUND
    ):
        leased = status == "leased"
        if (leased and attempts == 0) or (not leased and lease_until != NOW):
            continue
        owner, until = ("w", lease_until) if leased else (None, None)
        reason = "permanent" if status == "dead" else None
        seq = 3 * len(rows) + 5
        row = Job(seq, f"j{seq}", 1, status, attempts, 2, attempts, available_at, deadline, owner, until, reason)
        rows.append(row)
    return rows


def store(queue: QueueGuard, rows: list[Job]) -> None:
    """Put the rows into the file over a connection of the harness."""
    marks = ", ".join("?" * len(Job._fields))
    queue.other.execute("BEGIN").close()
    queue.other.executemany(f"INSERT INTO jobs ({COLUMNS}) VALUES ({marks})", rows).close()
    queue.other.execute("COMMIT").close()
    queue.lines.append(f"# ... and {len(rows)} rows, stored by someone else")


def test_a_claim_judges_each_row_by_itself(queue: QueueGuard) -> None:
    stored = every_kind()
    state = State(tuple(stored))
    store(queue, stored)
    for _ in state.jobs:
        op = Claim("x", NOW, 10)
        state, reply = lease.step(state, op)
        queue.must(op, reply)
        got = queue.rows()
        if difference := differences(got, state):
            wrong = (row for row, is_, must in zip(stored, got.jobs, state.jobs, strict=False) if is_ != must)
            queue.lines += [f"# this row was stored as {row._asdict()}" for row in itertools.islice(wrong, 1)]
            queue.fail(f"{source(op)} leaves {difference}")
        if reply == Return(None):
            return


def test_a_pending_job_without_an_attempt_left_is_dead_at_any_time(queue: QueueGuard) -> None:
    stored = State((Job(1, "a", 5, "pending", 2, 2, 2, 40, 5000, None, None, None),))
    store(queue, list(stored.jobs))
    state, reply = lease.step(stored, op := Claim("x", 0, 10))
    queue.must(op, reply)
    if difference := differences(queue.rows(), state):
        queue.fail(f"{source(op)} leaves {difference}")


@pytest.mark.parametrize("status", ["pending", "done", "dead"])
def test_a_finish_heeds_the_status_alone(queue: QueueGuard, status: str) -> None:
    store(queue, [Job(1, "a", 5, status, 1, 3, 1, 0, 5000, "w", 100, None)])
    before = queue.rows()
    queue.must(Finish(Ticket("a", 5, "w", 1, 1, 100), "ok", 50), Return(value=False))
    queue.unchanged(before)


def test_a_finish_heeds_the_deadline_alone(queue: QueueGuard) -> None:
    store(queue, [Job(1, "a", 5, "leased", 1, 3, 1, 0, 50, "w", 100, None)])
    ticket = Ticket("a", 5, "w", 1, 1, 100)
    before = queue.rows()
    for now_ms in (50, 51, 99):
        queue.must(Finish(ticket, "ok", now_ms), Return(value=False))
        queue.unchanged(before)
    queue.must(Finish(ticket, "ok", 49), Return("done"))
