"""The lease queue as a pure function: ``step(state, op) -> (state, reply)``.

Written from the contract, not from an implementation: a state is a tuple of rows, and nothing here knows SQL.
A state that does not change is returned as the same object.
"""

from __future__ import annotations

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
    Ran,
    Redrive,
    Reopen,
    Reply,
    Return,
    RunOnce,
    State,
    Ticket,
    hooks_of,
)

Step = tuple[State, Reply]

EMPTY = State()


def step(state: State, op: Op) -> Step:
    """What ``op`` leaves behind and what it answers; total over every state and every operation."""
    match op:
        case Crash():
            return _crash(state, op)
        case Blocked():
            after, reply = step(state, op.op)
            return (state, reply) if after is state else (state, LOCKED)
        case RunOnce():
            return _run_once(state, op)
        case Reopen():
            return state, Return(None)
    if not in_bounds(op):
        return state, REFUSED
    match op:
        case Claim():
            return _claim(state, op)
        case Finish():
            return _finish(state, op)
        case Enqueue():
            return _enqueue(state, op)
        case Redrive():
            return _redrive(state, op)
        case _:
            assert_never(op)


def hooks_reached(state: State, op: Op) -> tuple[Hook, ...]:
    """The hooks that ``op`` calls, in order: all of its own if it makes its change, otherwise none (T6).

    A crash reaches none beyond its own; a blocked operation none beyond the COMMIT that fails.
    """
    plain = op.op if isinstance(op, Crash | Blocked) else op
    _, reply = step(state, plain)
    if not isinstance(reply, Return) or reply.value in (None, False):
        return ()
    hooks = hooks_of(plain)
    if isinstance(op, Blocked):
        return tuple(hook for hook in hooks if not hook.kept)
    names = [hook.name for hook in hooks]
    if isinstance(op, Crash) and op.hook in names:
        return hooks[: names.index(op.hook) + 1]
    return hooks


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
            return state, (Return(value=False) if job.qty == op.qty else CONFLICT)
    new = Job(
        seq=1 + max((job.seq for job in state.jobs), default=0),
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
    return State((*state.jobs, new), state.redrives), Return(value=True)


def _claim(state: State, op: Claim) -> Step:
    state = _quarantine(state, op.now_ms)
    for job in state.jobs:
        if _open(job, op.now_ms) and (job.status == "leased" or job.available_at <= op.now_ms):
            leased = job._replace(
                status="leased",
                attempts=job.attempts + 1,
                token=job.token + 1,
                owner=op.owner,
                lease_until=min(op.now_ms + op.lease_ms, job.deadline),
                reason=None,
            )
            return _put(state, leased), Return(_ticket(leased))
    return state, Return(None)


def _quarantine(state: State, now_ms: int) -> State:
    """Move every open row whose time or attempts are used up to dead; a live lease is left alone."""
    for job in state.jobs:
        late, spent = job.deadline <= now_ms, job.attempts >= job.max_attempts
        if _open(job, now_ms) and (late or spent):
            state = _put(state, _dead(job, "deadline" if late else "exhausted"))
    return state


def _open(job: Job, now_ms: int) -> bool:
    """Nobody holds it: pending, or leased with the lease over. At ``lease_until`` itself the lease is over."""
    lease_over = job.status == "leased" and job.lease_until is not None and job.lease_until <= now_ms
    return job.status == "pending" or lease_over


def _finish(state: State, op: Finish) -> Step:
    job = _find(state, op.ticket.id)
    if job is None or job.status != "leased" or _ticket(job) != op.ticket:
        return state, Return(value=False)
    if op.now_ms >= op.ticket.lease_until or op.now_ms >= job.deadline:
        return state, Return(value=False)
    after = _outcome(job, op)
    return _put(state, after), Return(after.status)


def _outcome(job: Job, op: Finish) -> Job:
    freed = job._replace(owner=None, lease_until=None, available_at=op.now_ms)
    again_at = op.now_ms + op.delay_ms
    if op.outcome == "ok":
        return freed._replace(status="done", reason=None)
    if op.outcome == "permanent":
        return _dead(freed, "permanent")
    if job.attempts >= job.max_attempts:
        return _dead(freed, "exhausted")
    if again_at >= job.deadline:
        return _dead(freed, "deadline")
    return freed._replace(status="pending", available_at=again_at, reason="retry")


def _redrive(state: State, op: Redrive) -> Step:
    job = _find(state, op.job_id)
    if job is None or job.status != "dead":
        return state, REFUSED
    audit = Audit(1 + max((row.seq for row in state.redrives), default=0), job.id, job.token, op.now_ms, op.note)
    again = job._replace(
        status="pending",
        attempts=0,
        available_at=op.now_ms,
        deadline=op.now_ms + op.ttl_ms,
        owner=None,
        lease_until=None,
        reason=None,
    )
    return _put(state, again)._replace(redrives=(*state.redrives, audit)), Return(value=True)


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


def _crash(state: State, op: Crash) -> Step:
    """A change whose COMMIT was not reached is lost whole; one whose COMMIT was reached is kept whole."""
    after, reply = step(state, op.op)
    reached = hooks_reached(state, op)
    if not reached or reached[-1].name != op.hook:
        return after, reply
    return (after if reached[-1].kept else state), PLANTED


# --- rows -------------------------------------------------------------------------------------------------------------


def _find(state: State, job_id: str) -> Job | None:
    return next((job for job in state.jobs if job.id == job_id), None)


def _put(state: State, new: Job) -> State:
    return State(tuple(new if job.seq == new.seq else job for job in state.jobs), state.redrives)


def _dead(job: Job, reason: str) -> Job:
    return job._replace(status="dead", owner=None, lease_until=None, reason=reason)


def _ticket(leased: Job) -> Ticket | None:
    """The one ticket that holds this row now; None for a row that nobody holds."""
    if leased.owner is None or leased.lease_until is None:
        return None
    return Ticket(leased.id, leased.qty, leased.owner, leased.token, leased.attempts, leased.lease_until)
