"""What a storm is made of, drawn from a seed: jobs, what the receiver answers, who dies or stops where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from chaos.inbox import Turn
from chaos.stormer import AGAIN, CLAIM_READ, FINISH_READ, SENDS, SENT, STATEMENT, Fate
from model.contract import FAULT_HOOKS, Claim, Enqueue, Finish, Plain, Redrive


@dataclass(frozen=True, slots=True)
class Weather:
    """How much there is to do, and how much must have happened before it may end: else it could have shown too little.

    ``spare`` jobs are added, some at a time, for as long as that is not so. There are fewer ``owners`` than workers:
    whom the owner's name does not tell apart, the token must.
    """

    jobs: int = 100
    spare: int = 100
    workers: int = 4
    owners: tuple[str, ...] = ("w", "x")
    redrives: int = 20
    kills: int = 20
    stalls: int = 6

    def lacks(self, did: Mapping[str, int]) -> str:
        """What has not happened often enough; empty if everything has."""
        least = {"processes killed": self.kills, "stale finishes refused": self.stalls}
        return ", ".join(
            f"{did.get(what, 0)} {what}, must be {count}" for what, count in least.items() if did.get(what, 0) < count
        )


def _places(*ops: type[Plain]) -> tuple[str, ...]:
    """The two ends and the hooks of these operations."""
    return tuple(
        f"{op.__name__.lower()} {place}"
        for op in ops
        for place in ("invoked", *(hook.name for hook in FAULT_HOOKS if hook.op is op), "returned")
    )


WORKER_PLACES: Final = (*_places(Claim, Finish), SENDS, SENT, CLAIM_READ, FINISH_READ)
OPERATOR_PLACES: Final = _places(Enqueue, Redrive)
STALLS: Final = (SENDS, SENDS, FINISH_READ, FINISH_READ, CLAIM_READ, AGAIN)
"""Where a worker stops for long: it holds no lock there, and comes back with what it has read before."""

STATEMENTS: Final = 10
"""About as many does a claim with its finish execute."""

SPARE: Final = 10

LEASES_MS: Final = (200, 1000, 1000, 5000)
TTLS_MS: Final = (3000, 20_000, 60_000, 60_000)
ANSWERS: Final = (
    Turn(503, commits=False),
    Turn(503),
    Turn(429, commits=False),
    Turn(500),
    Turn(500, commits=False),
    Turn("reset"),
    Turn("reset", commits=False),
    Turn("cut off"),
    Turn("wrong body"),
    Turn(400, commits=False),
)
"""The receiver's faults; whatever it answers, it may have kept the delivery."""


def worker_fate(random: Random) -> Fate:
    """One claim and what follows: about every second one goes well."""
    lease_ms, jitter, share = random.choice(LEASES_MS), random.random(), random.random()
    nth = random.randrange(1, STATEMENTS)
    if share < 0.12:
        return Fate(dies=random.choice(WORKER_PLACES), lease_ms=lease_ms, jitter=jitter)
    if share < 0.17:
        return Fate(dies=STATEMENT, nth=nth, lease_ms=lease_ms, jitter=jitter)
    if share < 0.42:
        place = random.choice(STALLS)
        says = "permanent" if place == AGAIN else random.choice(("", "retry"))
        return Fate(stalls=place, says=says, lease_ms=lease_ms, jitter=jitter)
    if share < 0.55:
        return Fate(stalls=STATEMENT, nth=nth, lease_ms=lease_ms, jitter=jitter)
    return Fate(lease_ms=lease_ms, jitter=jitter)


def operator_fate(random: Random, ops: Sequence[Plain]) -> Fate:
    """Some operations, one after the other; it rarely dies."""
    dies = random.choice(OPERATOR_PLACES) if random.random() < 0.1 else ""
    return Fate(dies=dies, ops=tuple(map(repr, ops)))


def enqueues(random: Random, count: int, start: int = 0) -> Iterator[Enqueue]:
    """New jobs, now and then one that is there already, in the same quantity or in another; their time is not set."""
    for number in range(start, start + count):
        qty = random.randrange(1, 9)
        yield Enqueue(f"job-{number:03}", qty, 0, random.choice(TTLS_MS), random.randrange(1, 5))
        if random.random() < 0.1:
            yield Enqueue(f"job-{random.randrange(number + 1):03}", qty, 0, 60_000)


def turns(random: Random, count: int) -> Iterator[Turn]:
    """How the receiver treats so many requests: every fourth one badly."""
    for _ in range(count):
        yield random.choice(ANSWERS) if random.random() < 0.25 else Turn()


def redrives(random: Random, dead: Sequence[str]) -> Iterator[Redrive]:
    """Some of the dead jobs are to live again."""
    for job_id in random.sample(dead, min(len(dead), 3)):
        yield Redrive(job_id, 0, random.choice(TTLS_MS), "again")
