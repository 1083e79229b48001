"""Finite worlds of the lease queue: which jobs, owners, budgets, spans and deaths there are, and at which times.

An operation happens at the instants at which a row changes its meaning, one millisecond before and one after, so every
``<`` and ``<=`` of the contract is met from both sides and at equality. A shift of all times changes nothing, nor does
another name for an owner or a job, so only one of such states is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Final

from model import lease
from model.contract import (
    OUTCOMES,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Job,
    Op,
    Plain,
    Redrive,
    Reply,
    State,
    Ticket,
    hooks_of,
)
from model.explorer import Scope

BASE_MS = 1_000
"""Where time begins: far enough from zero that no operation of a scope comes near it."""

NAMES = "abcdefgh"
QTY = 5


@dataclass(frozen=True, slots=True)
class Domains:
    """What there is of everything; all spans in ms. ``redrives`` is for all jobs together."""

    jobs: int
    owners: tuple[str, ...]
    budgets: tuple[int, ...]
    ttls: tuple[int, ...]
    leases: tuple[int, ...]
    redrives: int
    reduced: bool = True

    @property
    def words(self) -> str:
        """What is in such a world."""
        return (
            f"lease queue: jobs {self.jobs}, owners {len(self.owners)}, attempts {_either(self.budgets)}, "
            f"ms to live {_either(self.ttls)}, ms of a lease {_either(self.leases)}, redrives {self.redrives}"
        )


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def scope(name: str, domains: Domains) -> Scope[State, Op, Reply]:
    """The world of these domains; unless ``reduced`` is off, up to names and a shift of time."""
    canonical = _Canonical(domains.owners) if domains.reduced else _same
    return Scope(name, lease.EMPTY, lease.apply, _Ops(domains), canonical, domains.words)


# --- symmetry ---------------------------------------------------------------------------------------------------------


def _same(state: State) -> State:
    return state


@dataclass(frozen=True, slots=True)
class _Canonical:
    """The state with its earliest time at ``BASE_MS`` and its owners named in the order of the rows they hold."""

    owners: tuple[str, ...]

    def __call__(self, state: State) -> State:
        times = [job.available_at for job in state.jobs]
        times += [audit.at_ms for audit in state.redrives]
        by = BASE_MS - min(times, default=BASE_MS)
        held = tuple(dict.fromkeys([job.owner for job in state.jobs if job.owner]))
        if by == 0 and held == self.owners[: len(held)]:
            return state
        names = dict(zip(held, self.owners, strict=False))
        jobs = tuple([_moved(job, by, names[job.owner] if job.owner else None) for job in state.jobs])
        return State(jobs, tuple([audit._replace(at_ms=audit.at_ms + by) for audit in state.redrives]))


@lru_cache(maxsize=100_000)
def _moved(job: Job, by: int, owner: str | None) -> Job:
    until = None if job.lease_until is None else job.lease_until + by
    return job._replace(available_at=job.available_at + by, deadline=job.deadline + by, owner=owner, lease_until=until)


# --- operations -------------------------------------------------------------------------------------------------------


class _Ops:
    """Everything that may be asked in a state, the same values over and over: most states share most of them."""

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        self._enqueues = lru_cache(maxsize=None)(self._enqueues_of)
        self._claims = lru_cache(maxsize=None)(self._claims_of)
        self._of_job = lru_cache(maxsize=100_000)(self._ops_of_job)

    def __call__(self, state: State) -> list[Op]:
        times = _times(state)
        ops = [*self._enqueues(tuple([job.id for job in state.jobs]), times), *self._claims(times)]
        left = self.domains.redrives - len(state.redrives)
        for job in state.jobs:
            ops += self._of_job(job, times, left > 0)
        return ops

    def _enqueues_of(self, ids: tuple[str, ...], times: tuple[int, ...]) -> tuple[Op, ...]:
        """New jobs at every time, and each known id again: the same, and with another quantity."""
        fresh = [name for name in NAMES[: self.domains.jobs] if name not in ids]
        fresh = fresh[:1] if self.domains.reduced else fresh
        new = product(fresh, times, self.domains.ttls, self.domains.budgets)
        return (
            *(Enqueue(name, QTY, now_ms, ttl_ms, budget) for name, now_ms, ttl_ms, budget in new),
            *(Enqueue(name, qty, times[-1], 9, 16) for name in ids for qty in (QTY, QTY + 1)),
        )

    def _claims_of(self, times: tuple[int, ...]) -> tuple[Op, ...]:
        claims = [Claim(*values) for values in product(self.domains.owners, times, self.domains.leases)]
        dying = [Claim(self.domains.owners[0], now_ms, self.domains.leases[0]) for now_ms in times]
        return (*claims, *_crashes(dying))

    def _ops_of_job(self, job: Job, times: tuple[int, ...], may_redrive: bool) -> tuple[Op, ...]:  # noqa: FBT001
        finishes = list(_finishes(job, times, self.domains.owners))
        ttls = self.domains.ttls
        if job.status != "dead":
            return (*finishes, *_crashes(finishes[:3]), Redrive(job.id, times[0], ttls[0], "why"))
        if not may_redrive:
            return tuple(finishes)
        redrives = [Redrive(job.id, now_ms, ttl_ms, "why") for now_ms, ttl_ms in product(times, ttls)]
        return (*finishes, *redrives, *_crashes(redrives[:1]))


def _times(state: State) -> tuple[int, ...]:
    """Before, at and after each instant at which a claim or a finish would begin to answer otherwise."""
    instants: set[int] = set()
    for job in state.jobs:
        if job.status in ("pending", "leased"):
            instants |= {job.deadline, job.available_at if job.lease_until is None else job.lease_until}
    if not instants:
        instants = {max((job.available_at for job in state.jobs), default=BASE_MS)}
    return tuple(sorted({instant + by for instant in instants for by in (-1, 0, 1)}))


def _finishes(job: Job, times: tuple[int, ...], owners: tuple[str, ...]) -> Iterator[Finish]:
    """With the ticket that holds the row: every outcome in time, ok at any time, a retry around the deadline, and
    the ticket with each field falsified. For a row that nobody holds, with what may have been its last ticket.
    """
    if job.owner is None or job.lease_until is None:
        old = Ticket(job.id, job.qty, owners[0], max(job.token, 1), max(job.attempts, 1), job.deadline)
        yield Finish(old, "ok", job.deadline - 1)
        return
    ticket = Ticket(job.id, job.qty, job.owner, job.token, job.attempts, job.lease_until)
    in_time = job.lease_until - 1
    for outcome in OUTCOMES:
        yield Finish(ticket, outcome, in_time)
    for now_ms in times:
        yield Finish(ticket, "ok", now_ms)
    for by in (-1, 0, 1):
        yield Finish(ticket, "retry", in_time, job.deadline - in_time + by)
    for falsified in filter(lease.in_bounds, _falsified(ticket, owners)):
        yield Finish(falsified, "ok", in_time)


def _falsified(ticket: Ticket, owners: tuple[str, ...]) -> Iterator[Ticket]:
    """Each single field changed, numbers to both sides."""
    yield replace(ticket, owner=next(owner for owner in (*owners, "nobody") if owner != ticket.owner))
    for by in (-1, 1):
        yield replace(ticket, qty=ticket.qty + by)
        yield replace(ticket, token=ticket.token + by)
        yield replace(ticket, attempt=ticket.attempt + by)
        yield replace(ticket, lease_until=ticket.lease_until + by)


def _crashes(ops: Iterable[Plain]) -> Iterator[Crash[Plain]]:
    for op in ops:
        for hook in hooks_of(op):
            yield Crash(op, hook.name)


_BOTH: Final = ("v", "w")

SCOPES: Final = {
    name: scope(name, domains)
    for name, domains in {
        "one": Domains(jobs=1, owners=_BOTH, budgets=(1, 2), ttls=(4,), leases=(2,), redrives=1),
        "again": Domains(jobs=1, owners=_BOTH, budgets=(1, 2), ttls=(3,), leases=(2,), redrives=2),
        "rescue": Domains(jobs=2, owners=_BOTH, budgets=(1,), ttls=(1,), leases=(1,), redrives=1),
        "pair": Domains(jobs=2, owners=_BOTH, budgets=(2,), ttls=(2,), leases=(1,), redrives=0),
        "two": Domains(jobs=2, owners=_BOTH, budgets=(1, 2), ttls=(3,), leases=(2,), redrives=0),
        "three": Domains(jobs=3, owners=_BOTH, budgets=(1,), ttls=(2,), leases=(1,), redrives=0),
        "wide": Domains(jobs=2, owners=_BOTH, budgets=(1, 2), ttls=(2, 3), leases=(2,), redrives=2),
    }.items()
}

SIZES: Final = {
    "one": (185, 4_334),
    "again": (1_175, 26_461),
    "rescue": (1_075, 28_509),
    "pair": (2_198, 64_361),
    "two": (6_595, 193_295),
    "three": (28_235, 912_475),
    "wide": (1_704_892, 48_550_573),
}
"""States and transitions of each world: a model that has changed finds others, and cannot pass unseen."""
