"""The lease queue as a pure function: ``step(state, op) -> (state, reply)``.

Written from the contract, not from an implementation: a state is a tuple of rows, and nothing here knows SQL.
A state that does not change is returned as the same object.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor
from typing import assert_never

from model.contract import (
    BAD_ACK,
    BOUNDS,
    CONFLICT,
    LOCKED,
    OUTCOMES,
    PLANTED,
    REFUSED,
    RETRY_BASE_MS,
    RETRY_CAP_MS,
    Audit,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Hook,
    Job,
    Op,
    Plain,
    Ran,
    Redrive,
    Reopen,
    Reply,
    Return,
    RunOnce,
    State,
    Ticket,
    called,
    hooks_of,
    plain,
)

Step = tuple[State, Reply]

EMPTY = State()
NONE, FALSE, TRUE = Return(None), Return(value=False), Return(value=True)

remembered = lru_cache(maxsize=1 << 16)
"""For pure functions of one row: a search asks for the same few rows over and over, and equal rows are one object."""


def step(state: State, op: Op) -> Step:
    """What ``op`` leaves behind and what it answers; total over every state and every operation."""
    asked = plain(op)
    if not isinstance(asked, RunOnce) and not in_bounds(asked):
        return state, REFUSED
    return apply(state, op)


def apply(state: State, op: Op) -> Step:
    """``step`` without the look at the bounds: for an explorer, which asks for the same few operations for ever."""
    match op:
        case Finish():
            return _finish(state, op)
        case Claim():
            return _claim(state, op)
        case Crash():
            return _crash(state, op)
        case Enqueue():
            return _enqueue(state, op)
        case Redrive():
            return _redrive(state, op)
        case RunOnce():
            return _run_once(state, op)
        case Blocked():
            after, reply = apply(state, op.op)
            return (state, reply) if after is state else (state, LOCKED)
        case Reopen():
            return state, NONE
        case _:
            assert_never(op)


def hooks_reached(state: State, op: Op) -> tuple[Hook, ...]:
    """The hooks that ``op`` calls, in order: those of ``called`` if it makes its change, otherwise none."""
    _, reply = step(state, plain(op))
    return called(op, hooks_of(plain(op))) if made_its_change(reply) else ()


def made_its_change(reply: Reply) -> bool:
    """Whether an operation that answers so, and neither crashes nor is blocked, has made its change."""
    return isinstance(reply, Return) and reply.value is not None and reply.value is not False


def in_bounds(value: Op | Ticket) -> bool:
    """Whether every integer lies within its bound; what it means that one does not: ValueError, before any change."""
    for name in value.__slots__:
        field = getattr(value, name)
        if name in BOUNDS and not BOUNDS[name].allows(field):
            return False
        if name == "ticket" and not in_bounds(field):
            return False
        if name == "outcome" and field not in OUTCOMES:
            return False
    return True


def retry_delay(attempt: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Double from ``base_ms``, cap, then take the share ``jitter`` and round down; ms."""
    doubled: int = base_ms * 2 ** (attempt - 1)
    return floor(min(cap_ms, doubled) * jitter)


# --- one function per operation ---------------------------------------------------------------------------------------


def _enqueue(state: State, op: Enqueue) -> Step:
    for job in state.jobs:
        if job.id == op.id:
            return state, (FALSE if job.qty == op.qty else CONFLICT)
    new = Job(
        seq=state.jobs[-1].seq + 1 if state.jobs else 1,
        id=op.id,
        qty=op.qty,
        status="pending",
        attempts=0,
        max_attempts=op.max_attempts,
        token=0,
        available_at=op.now_ms,
        deadline=op.now_ms + op.ttl_ms,
        owner=None,
        lease_until=None,
        reason=None,
    )
    return State((*state.jobs, new), state.redrives), TRUE


def _claim(state: State, op: Claim) -> Step:
    now_ms = op.now_ms
    state = _quarantine(state, now_ms)
    for job in state.jobs:
        if _is_open(job, now_ms) and (job.status == "leased" or job.available_at <= now_ms):
            leased, reply = _leased(job, op.owner, min(now_ms + op.lease_ms, job.deadline))
            return _put(state, leased), reply
    return state, NONE


@remembered
def _leased(job: Job, owner: str, lease_until: int) -> tuple[Job, Reply]:
    """The row under its new lease, and the ticket that holds it."""
    leased = job._replace(
        status="leased",
        attempts=job.attempts + 1,
        token=job.token + 1,
        owner=owner,
        lease_until=lease_until,
        reason=None,
    )
    return leased, Return(Ticket(job.id, job.qty, owner, leased.token, leased.attempts, lease_until))


def _quarantine(state: State, now_ms: int) -> State:
    """Move every open row whose time or attempts are used up to dead; a live lease is left alone."""
    for job in state.jobs:
        late, spent = job.deadline <= now_ms, job.attempts >= job.max_attempts
        if (late or spent) and _is_open(job, now_ms):
            state = _put(state, _dead(job, "deadline" if late else "exhausted"))
    return state


def _is_open(job: Job, now_ms: int) -> bool:
    """Nobody holds it: pending, or leased with the lease over. At ``lease_until`` itself the lease is over."""
    if job.status == "leased":
        return job.lease_until is not None and job.lease_until <= now_ms
    return job.status == "pending"


def _finish(state: State, op: Finish) -> Step:
    job = _find(state, op.ticket.id)
    if job is None or not _holds(op.ticket, job):
        return state, FALSE
    if op.now_ms >= op.ticket.lease_until or op.now_ms >= job.deadline:
        return state, FALSE
    after, reply = _settled(job, op.outcome, op.now_ms, op.delay_ms)
    return _put(state, after), reply


@remembered
def _settled(job: Job, outcome: str, now_ms: int, delay_ms: int) -> tuple[Job, Reply]:
    """The row after its holder's outcome, and its new status."""
    freed = job._replace(owner=None, lease_until=None, available_at=now_ms)
    if outcome == "ok":
        after = freed._replace(status="done", reason=None)
    elif outcome == "permanent":
        after = _dead(freed, "permanent")
    elif job.attempts >= job.max_attempts:
        after = _dead(freed, "exhausted")
    elif now_ms + delay_ms >= job.deadline:
        after = _dead(freed, "deadline")
    else:
        after = freed._replace(status="pending", available_at=now_ms + delay_ms, reason="retry")
    return after, Return(after.status)


def _redrive(state: State, op: Redrive) -> Step:
    job = _find(state, op.job_id)
    if job is None or job.status != "dead":
        return state, REFUSED
    audit = Audit(len(state.redrives) + 1, job.id, job.token, op.now_ms, op.note)
    again = job._replace(
        status="pending",
        attempts=0,
        available_at=op.now_ms,
        deadline=op.now_ms + op.ttl_ms,
        owner=None,
        lease_until=None,
        reason=None,
    )
    return State(_put(state, again).jobs, (*state.redrives, audit)), TRUE


def _run_once(state: State, op: RunOnce) -> Step:
    state, claimed = step(state, Claim(op.owner, op.first_ms, op.lease_ms))
    if not isinstance(claimed, Return) or not isinstance(claimed.value, Ticket):
        return state, claimed
    ticket = claimed.value
    for other in op.meanwhile:
        state, _ = step(state, other)
    if op.send == "bad-ack":
        return state, BAD_ACK
    if op.send == "error":
        return state, PLANTED
    if not BOUNDS["now_ms"].allows(op.second_ms) or op.second_ms < op.first_ms:
        return state, REFUSED
    state, finished = step(state, _finish_of(ticket, op))
    status = finished.value if isinstance(finished, Return) and isinstance(finished.value, str) else "stale"
    return state, Return(Ran(ticket.id, ticket.token, status))


def _finish_of(ticket: Ticket, op: RunOnce) -> Finish:
    if op.send == "retryable":
        delay_ms = retry_delay(ticket.attempt, RETRY_BASE_MS, RETRY_CAP_MS, op.jitter)
        return Finish(ticket, "retry", op.second_ms, delay_ms)
    return Finish(ticket, "permanent" if op.send == "permanent" else "ok", op.second_ms)


def _crash(state: State, op: Crash[Plain]) -> Step:
    """A change whose COMMIT was not reached is lost whole; one whose COMMIT was reached is kept whole."""
    after, reply = apply(state, op.op)
    if made_its_change(reply):
        for hook in hooks_of(op.op):
            if hook.name == op.hook:
                return (after if hook.kept else state), PLANTED
    return after, reply


# --- rows -------------------------------------------------------------------------------------------------------------


def _find(state: State, job_id: str) -> Job | None:
    for job in state.jobs:
        if job.id == job_id:
            return job
    return None


def _put(state: State, new: Job) -> State:
    return State(tuple([new if job.seq == new.seq else job for job in state.jobs]), state.redrives)


@remembered
def _dead(job: Job, reason: str) -> Job:
    return job._replace(status="dead", owner=None, lease_until=None, reason=reason)


def _holds(ticket: Ticket, job: Job) -> bool:
    """Whether the ticket is the one that holds this row now: it must agree in every field."""
    return (
        job.status == "leased"
        and job.token == ticket.token
        and job.attempts == ticket.attempt
        and job.lease_until == ticket.lease_until
        and job.owner == ticket.owner
        and job.qty == ticket.qty
    )
