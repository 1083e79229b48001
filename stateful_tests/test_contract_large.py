"""A large file: nothing of it is lost, left out or looked for in a part only, however much has piled up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import pytest

from model import lease
from model.contract import Audit, Claim, Enqueue, Finish, Job, Plain, Redrive, State, Ticket
from model.counterexample import differences
from model.port import connect
from stateful_tests.guard import QueueGuard
from stateful_tests.options import Profile

pytestmark = pytest.mark.layer("contract")

DOOMED = 33_000
"""More than the variables that one statement may have."""
MANY = 11_000
KINDS = (
    *(("doomed", "pending", DOOMED), ("spent", "leased", MANY)),
    *(("done", "done", MANY), ("dead", "dead", MANY), ("later", "pending", MANY)),
)
DEADLINE_MS = 10
LATER_MS = 10**6


def put(queue: QueueGuard, table: str, fields: tuple[str, ...], rows: Iterable[Job | Audit]) -> None:
    """Over a connection of the harness."""
    with contextlib.closing(connect(queue.path)) as con:
        con.execute("BEGIN").close()
        con.executemany(
            f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})", rows
        ).close()
        con.execute("COMMIT").close()


def jobs(every: int) -> Iterator[Job]:
    """So many that die at ``DEADLINE_MS``, are spent, are settled, or are not due; and the last one, which is."""
    seq = 0
    for name, status, count in KINDS:
        for number in range(count // every):
            seq += 1
            deadline = DEADLINE_MS if name == "doomed" else 10**9
            available_at = LATER_MS if name == "later" else 0
            reason = "permanent" if status == "dead" else None
            attempts, owner, lease_until = (3, "x", 5) if name == "spent" else (1, None, None)
            yield Job(
                seq, f"{name}{number}", 5, status, attempts, 3, 1, available_at, deadline, owner, lease_until, reason
            )
    yield Job(seq + 1, "last", 5, "pending", 0, 3, 0, 0, 10**9, None, None, None)


def buried(state: State) -> State:
    """What the model's quarantine makes of the doomed, all at once: it takes one after the other, and so for hours."""
    return state._replace(jobs=tuple(map(_buried, state.jobs)))


def _buried(job: Job) -> Job:
    if job.id.startswith("doomed"):
        return job._replace(status="dead", reason="deadline")
    if job.id.startswith("spent"):
        return job._replace(status="dead", reason="exhausted", owner=None, lease_until=None)
    return job


LAST = Ticket("last", 5, "w", 1, 1, 110)
OPERATIONS: tuple[Plain, ...] = (
    Enqueue("done0", 5, 0, 100),
    Enqueue("done99", 6, 0, 100),
    Enqueue("new", 5, LATER_MS, 100),
    Claim("w", DEADLINE_MS, 100),
    Finish(LAST, "ok", DEADLINE_MS),
    Redrive("dead0", DEADLINE_MS, 100, "n"),
    Claim("w", DEADLINE_MS, 100),
)


@pytest.mark.timeout(120)
def test_every_row_of_a_large_queue_counts(queue: QueueGuard, profile: Profile) -> None:
    put(queue, "jobs", Job._fields, jobs(profile.every))
    put(
        queue,
        "redrives",
        Audit._fields,
        (Audit(seq, f"dead{seq}", 1, 0, "n") for seq in range(1, MANY // profile.every)),
    )
    few, many = DOOMED // profile.every, MANY // profile.every
    queue.lines.append(f"# {few} jobs past their deadline are put there, {many} each spent, done, dead and not yet due")
    state: State = queue.rows()
    for op in OPERATIONS:
        if isinstance(op, Claim):
            state = buried(state)
        state, reply = lease.step(state, op)
        queue.must(op, reply)
        queue.did["operations compared"] += 1
        # To read all rows takes longer than any of the calls.
        if isinstance(op, Claim) and (difference := differences(queue.subject.ranked(queue.rows()), state)):
            queue.fail(f"after {queue.lines[-1]}, {difference}")
