"""What must hold of the lease queue, by name: always, sometimes, eventually; each with the clause it comes from.

Written over rows, operations and replies alone, without a call of the model, except where a law speaks of what would
be answered next. The explorer checks them in every state and on every transition of a scope.
"""

from __future__ import annotations

from collections.abc import Callable

from model import lease
from model.contract import (
    CONFLICT,
    FAULT_HOOKS,
    PLANTED,
    REFUSED,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Job,
    Op,
    Redrive,
    Reply,
    Return,
    State,
    Ticket,
)
from model.explorer import Invariant, Law, Sometimes

Seen = Callable[[State, Op, State, Reply], bool]


# --- always, in every state -------------------------------------------------------------------------------------------


def _each(holds: Callable[[Job], bool]) -> Callable[[State], bool]:
    return lambda state: all(holds(job) for job in state.jobs)


def _audits_fit(state: State) -> bool:
    """Per job: tokens never fall from one audit row to the next, and none is above the job's own."""
    tokens = {job.id: job.token for job in state.jobs}
    for audit in reversed(state.redrives):
        if audit.token > tokens.get(audit.id, -1):
            return False
        tokens[audit.id] = audit.token
    return True


def _attempts_fit(state: State) -> bool:
    """The attempts are the claims since the last redrive: a token is issued by each claim, and by nothing else."""
    last = {audit.id: audit.token for audit in state.redrives}
    return all(job.token - last.get(job.id, 0) == job.attempts for job in state.jobs)


def _is_buried_in_time(state: State) -> bool:
    """Eventually: one poll at the last deadline leaves nothing open, whoever died before."""
    open_jobs = [job for job in state.jobs if job.status in ("pending", "leased")]
    if not open_jobs:
        return True
    after, reply = lease.apply(state, Claim("last", max(job.deadline for job in open_jobs)))
    return reply == Return(None) and all(job.status in ("done", "dead") for job in after.jobs)


INVARIANTS = (
    Invariant("attempts never pass max_attempts", "claim", _each(lambda job: job.attempts <= job.max_attempts)),
    Invariant(
        "leased if and only if owner and lease_until are set",
        "claim, finish, redrive",
        _each(lambda job: (job.status == "leased") == (job.owner is not None) == (job.lease_until is not None)),
    ),
    Invariant(
        "a lease ends at the deadline or before",
        "claim",
        _each(lambda job: job.lease_until is None or job.lease_until <= job.deadline),
    ),
    Invariant(
        "a pending job can still be claimed",
        "claim, finish",
        _each(
            lambda job: job.status != "pending" or (job.available_at < job.deadline and job.attempts < job.max_attempts)
        ),
    ),
    Invariant(
        "a dead job has a reason, a done job has none",
        "claim, finish",
        _each(
            lambda job: {
                "pending": job.reason in (None, "retry"),
                "leased": job.reason is None,
                "done": job.reason is None,
                "dead": job.reason in ("deadline", "exhausted", "permanent"),
            }[job.status]
        ),
    ),
    Invariant("audit rows carry tokens that were issued by then", "redrive", _audits_fit),
    Invariant("every token is one claim since the last redrive", "claim, redrive", _attempts_fit),
    Invariant("eventually: one poll at the last deadline leaves nothing open", "claim", _is_buried_in_time),
)


# --- always, of every transition --------------------------------------------------------------------------------------


def _changed(before: State, after: State) -> list[tuple[Job, Job]]:
    return [(old, new) for old, new in zip(before.jobs, after.jobs, strict=False) if old is not new and old != new]


def _token_grows(before: State, op: Op, after: State, reply: Reply) -> bool:
    """Each claim that answers a ticket, or dies after its COMMIT, takes the next token of its job; nothing else."""
    del op
    if before is after:
        return True
    for old, new in _changed(before, after):
        if new.token != old.token + (new.status == "leased"):
            return False
        if isinstance(reply, Return) and isinstance(reply.value, Ticket) and reply.value.id == new.id:
            return new.token == reply.value.token
    return True


def _only_the_holder_finishes(before: State, op: Op, after: State, reply: Reply) -> bool:
    """A finish that changes anything shows, field by field, the one ticket that holds the row, in time."""
    del after
    if not isinstance(op, Finish) or not isinstance(reply, Return) or reply.value is False:
        return True
    ticket = op.ticket
    held = [job for job in before.jobs if job.id == ticket.id and job.status == "leased"]
    return any(
        (job.qty, job.owner, job.token, job.attempts, job.lease_until)
        == (ticket.qty, ticket.owner, ticket.token, ticket.attempt, ticket.lease_until)
        and op.now_ms < ticket.lease_until
        and op.now_ms < job.deadline
        for job in held
    )


def _done_is_final(before: State, op: Op, after: State, reply: Reply) -> bool:
    del op, reply
    return before is after or all(old.status != "done" for old, _ in _changed(before, after))


def _live_leases_stand(before: State, op: Op, after: State, reply: Reply) -> bool:
    """Only its holder ends a lease before its time: a claim touches no row whose lease still runs."""
    del reply
    if before is after or not isinstance(op, Claim):
        return True
    return all(old.lease_until is None or old.lease_until <= op.now_ms for old, _ in _changed(before, after))


def _nothing_means_quarantine(before: State, op: Op, after: State, reply: Reply) -> bool:
    """None may only have buried; False and a refusal changed nothing at all."""
    if before is after:
        return True
    if reply in (REFUSED, CONFLICT) or reply == Return(value=False):
        return False
    if reply == Return(None):
        buried = [new.status == "dead" and new == _buried(old, new.reason) for old, new in _changed(before, after)]
        return isinstance(op, Claim | Crash) and all(buried) and before.redrives == after.redrives
    return True


def _buried(job: Job, reason: str | None) -> Job:
    return job._replace(status="dead", owner=None, lease_until=None, reason=reason)


def _identity_stays(before: State, op: Op, after: State, reply: Reply) -> bool:
    """Rows are never lost and never change their id, qty, seq and max_attempts."""
    del op, reply
    if before is after:
        return True
    if len(after.jobs) < len(before.jobs) or after.redrives[: len(before.redrives)] != before.redrives:
        return False
    return all(
        (old.seq, old.id, old.qty, old.max_attempts) == (new.seq, new.id, new.qty, new.max_attempts)
        for old, new in _changed(before, after)
    )


def _redrives_are_audited(before: State, op: Op, after: State, reply: Reply) -> bool:
    """A dead job that is pending again has just one new audit row, with its token; no other operation writes one."""
    if before is after:
        return True
    revived = [new for old, new in _changed(before, after) if old.status == "dead"]
    written = after.redrives[len(before.redrives) :]
    if [(job.id, job.token) for job in revived] != [(audit.id, audit.token) for audit in written]:
        return False
    return not written or (isinstance(op, Redrive | Crash) and reply in (Return(value=True), PLANTED))


def _budget_shrinks(before: State, op: Op, after: State, reply: Reply) -> bool:
    """Eventually: each ticket uses up one of the attempts that were left, and only a redrive gives new ones.

    So from any state on, without redrives, at most the sum of ``max_attempts - attempts`` over the open jobs are ever
    handed out.
    """
    if before is after or isinstance(op, Enqueue | Redrive) or after.redrives != before.redrives:
        return True
    handed_out = isinstance(reply, Return) and isinstance(reply.value, Ticket)
    return _budget(before) - _budget(after) >= handed_out


def _budget(state: State) -> int:
    return sum(job.max_attempts - job.attempts for job in state.jobs if job.status in ("pending", "leased"))


LAWS = (
    Law("a token is issued once and grows", "claim, redrive", _token_grows),
    Law("only the ticket that holds the row finishes it", "finish", _only_the_holder_finishes),
    Law("done never changes", "finish, claim, redrive", _done_is_final),
    Law("a running lease is left alone", "claim", _live_leases_stand),
    Law("None and False change nothing but quarantine", "claim, finish", _nothing_means_quarantine),
    Law("a row keeps its identity", "enqueue, claim, finish, redrive", _identity_stays),
    Law("each redrive has its audit row, and no row is without one", "redrive", _redrives_are_audited),
    Law("eventually: every ticket uses up the budget", "claim", _budget_shrinks),
)


# --- sometimes --------------------------------------------------------------------------------------------------------


def _answers(kind: type[Op], reply: Reply) -> Seen:
    return lambda _before, op, _after, got: isinstance(op, kind) and got == reply


def _becomes(kind: type[Op], status: str, reason: str | None) -> Seen:
    def seen(before: State, op: Op, after: State, _reply: Reply) -> bool:
        if not isinstance(op, kind) or before is after:
            return False
        return any((new.status, new.reason) == (status, reason) for _, new in _changed(before, after))

    return seen


def _crashes(hook: str, kind: type[Op], *, kept: bool) -> Seen:
    def seen(before: State, op: Op, after: State, reply: Reply) -> bool:
        dies = isinstance(op, Crash) and isinstance(op.op, kind) and op.hook == hook and reply == PLANTED
        return dies and (after is not before) == kept

    return seen


def _stale_finish(before: State, op: Op, _after: State, reply: Reply) -> bool:
    """The row has gone on to a higher token."""
    if not isinstance(op, Finish) or reply != Return(value=False):
        return False
    return any(job.id == op.ticket.id and 0 < op.ticket.token < job.token for job in before.jobs)


def _resend(before: State, _op: Op, after: State, reply: Reply) -> bool:
    """A job whose claim was kept, and whose worker never reported, is handed out again."""
    if not isinstance(reply, Return) or not isinstance(reply.value, Ticket) or before is after:
        return False
    return any(old.status == "leased" and new.status == "leased" for old, new in _changed(before, after))


def _redriven_done(before: State, op: Op, after: State, _reply: Reply) -> bool:
    if not isinstance(op, Finish) or before is after:
        return False
    redriven = {audit.id for audit in after.redrives}
    return any(new.status == "done" and new.id in redriven for _, new in _changed(before, after))


def _claimed(_before: State, op: Op, _after: State, reply: Reply) -> bool:
    return isinstance(op, Claim) and isinstance(reply, Return) and isinstance(reply.value, Ticket)


SOMETIMES = (
    Sometimes("enqueue answers True", _answers(Enqueue, Return(value=True))),
    Sometimes("enqueue answers False", _answers(Enqueue, Return(value=False))),
    Sometimes("enqueue raises Conflict", _answers(Enqueue, CONFLICT)),
    Sometimes("claim answers a ticket", _claimed),
    Sometimes("claim answers None", _answers(Claim, Return(None))),
    Sometimes("finish answers done", _answers(Finish, Return("done"))),
    Sometimes("finish answers dead", _answers(Finish, Return("dead"))),
    Sometimes("finish answers pending", _answers(Finish, Return("pending"))),
    Sometimes("finish answers False", _answers(Finish, Return(value=False))),
    Sometimes("redrive answers True", _answers(Redrive, Return(value=True))),
    Sometimes("redrive raises ValueError", _answers(Redrive, REFUSED)),
    Sometimes("a claim buries at the deadline", _becomes(Claim, "dead", "deadline")),
    Sometimes("a claim buries the exhausted", _becomes(Claim, "dead", "exhausted")),
    Sometimes("a retry waits", _becomes(Finish, "pending", "retry")),
    Sometimes("a retry is exhausted", _becomes(Finish, "dead", "exhausted")),
    Sometimes("a retry would miss the deadline", _becomes(Finish, "dead", "deadline")),
    Sometimes("a permanent failure buries", _becomes(Finish, "dead", "permanent")),
    Sometimes("a finish with an older token is refused", _stale_finish),
    Sometimes("a job is sent again after a kept claim", _resend),
    Sometimes("a redriven job gets done", _redriven_done),
    *(
        Sometimes(
            f"{hook.op.__name__.lower()} dies in {hook.name}: {'kept' if hook.kept else 'lost'}",
            _crashes(hook.name, hook.op, kept=hook.kept),
        )
        for hook in FAULT_HOOKS
    ),
)
