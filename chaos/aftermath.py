"""What a storm leaves, and whether it may: the history of all processes, the rows, the receiver's inbox and its log.

The checks that can say in one line which job went wrong come first; that the whole history has a legal order that ends
in these rows comes last, and includes the most of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from chaos.inbox import Inbox, Request
from chaos.killer import Unanswered
from model.contract import Claim, Enqueue, Finish, Op, Redrive, Reply, Return, State, Ticket
from model.counterexample import Violation, show
from model.history import MS, Call
from model.linearizability import QUEUE, check
from model.queue import ranked

History = Sequence[Call[Op, Reply]]
Claims = list[tuple[Call[Op, Reply], Ticket]]

SHOWN: Final = 14
"""Calls that a failure shows, the last ones of its job."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """All that was seen; ``requests`` is the receiver's log, ``problem`` why the storm ended before it was over."""

    history: History
    rows: State
    inbox: Inbox
    requests: Sequence[Request]
    problem: str = ""


def judge(left: Aftermath) -> None:
    """Nothing lost, nothing left open, each token issued once, no old token obeyed, one effect a job; and an order.

    Violation with the calls that show it; Unanswered if the receiver, or the search for an order, gives no answer.
    """
    for law in LAWS:
        law(left)
    _explain(left)


def _lost(left: Aftermath) -> None:
    """A job is there if an enqueue said so, and no other is."""
    there = {job.id for job in left.rows.jobs}
    for call in left.history:
        if isinstance(call.op, Enqueue) and isinstance(call.reply, Return) and call.op.id not in there:
            _fail(left, call.op.id, f"{call.op.id} is lost: the enqueue by {call.process} returned {show(call.reply)}")
    for job_id, _ in left.inbox.rows:
        if job_id not in there:
            _fail(left, job_id, f"{job_id} reached the receiver and is not in the queue")


def _stale(left: Aftermath) -> None:
    """A finish is refused after its lease has passed, or after a later claim or another finish of its job returned."""
    finishes, claims = accepted(left.history), tickets(left.history)
    for finish in finishes:
        if too_late := _too_late(finish, claims[finish.op.ticket.id], finishes):
            ticket, said = finish.op.ticket, show(finish.reply or Return(None))
            who = f"the finish of {ticket.id} by {finish.process} with token {ticket.token}"
            _fail(left, ticket.id, f"{who} is accepted ({said}), {too_late}", finish)


def _too_late(finish: Call[Finish, Return], claims: Claims, finishes: Sequence[Call[Finish, Return]]) -> str:
    """Why this finish had to be refused; empty if it had not."""
    ticket, now_ms = finish.op.ticket, finish.op.now_ms
    if now_ms >= ticket.lease_until:
        return f"at {now_ms}, when its lease had ended at {ticket.lease_until}"
    for claim, newer in claims:
        if newer.token > ticket.token and _before(claim, finish):
            return f"after {claim.process} got token {newer.token}"
    for other in finishes:
        settled = other.op.ticket
        if settled.id == ticket.id and settled.token >= ticket.token and _before(other, finish):
            return f"after {other.process} had finished it with token {settled.token}"
    return ""


def _tokens(left: Aftermath) -> None:
    """Each token from 1 to the row's was issued once: by a claim that returned, or by one that nobody knows of."""
    claims = tickets(left.history)
    missing = []
    for job in left.rows.jobs:
        issued: defaultdict[int, list[str]] = defaultdict(list)
        for claim, ticket in claims[job.id]:
            issued[ticket.token].append(claim.process)
        for token, processes in issued.items():
            if len(processes) > 1:
                _fail(left, job.id, f"token {token} of {job.id} was issued to {' and to '.join(processes)}")
            if token > job.token:
                _fail(
                    left, job.id, f"token {token} of {job.id} was issued to {processes[0]}, and its row has {job.token}"
                )
        missing += [(job.id, token) for token in range(1, job.token + 1) if token not in issued]
    unknown = sum(isinstance(call.op, Claim) and call.reply is None for call in left.history)
    if len(missing) > unknown:
        job_id, token = missing[0]
        _fail(
            left,
            job_id,
            f"{len(missing)} tokens, such as {token} of {job_id}, were issued by no claim ({unknown} unknown)",
        )


def _attempts(left: Aftermath) -> None:
    """No job is tried more often than it may be."""
    budget = {job.id: job.max_attempts for job in left.rows.jobs}
    for job in left.rows.jobs:
        if job.attempts > job.max_attempts:
            _fail(left, job.id, f"{job.id} has {job.attempts} attempts of {job.max_attempts}")
    for job_id, claims in tickets(left.history).items():
        for claim, ticket in claims:
            if ticket.attempt > budget.get(job_id, ticket.attempt):
                _fail(left, job_id, f"attempt {ticket.attempt} of {budget[job_id]} of {job_id} by {claim.process}")


def _open(left: Aftermath) -> None:
    """At the end, long after every lease, delay and deadline, all jobs are done or dead."""
    for job in left.rows.jobs:
        if job.status not in ("done", "dead") and not left.problem:
            held = f", by {job.owner} with token {job.token} until {job.lease_until}" if job.owner else ""
            _fail(
                left, job.id, f"{job.id} is left {job.status}{held}: no claim takes it, its deadline is {job.deadline}"
            )


def _effects(left: Aftermath) -> None:
    """A job that is done has reached the receiver, in its quantity; the receiver has kept each delivery once."""
    kept = dict(left.inbox.rows)
    for job in left.rows.jobs:
        if job.status == "done" and job.id not in kept:
            _fail(left, job.id, f"{job.id} is done and never reached the receiver")
        if kept.get(job.id, job.qty) != job.qty:
            _fail(left, job.id, f"the receiver got {kept[job.id]} of {job.id}, must get {job.qty}")
    new = Counter(request.body for request in left.requests if request.kept == "new")
    if left.inbox.total != sum(kept.values()) or new.total() != len(kept) or set(new.values()) - {1}:
        raise Unanswered(f"the receiver contradicts itself: {left.inbox.total} in {len(kept)} rows, {new.total()} new")


LAWS: Final[tuple[Callable[[Aftermath], None], ...]] = (_stale, _tokens, _lost, _attempts, _open, _effects)


def _explain(left: Aftermath) -> None:
    found = check(left.history, QUEUE, ranked(left.rows))
    if found.verdict == "unknown":
        raise Unanswered(f"the history of {len(left.history)} calls: {found.message}")
    if found.verdict == "invalid":
        answered = [call for call in found.prefix if call.reply is not None]
        last = sorted(answered, key=lambda call: call.returned or 0)[-1:]
        job_id = next((job_id for call in last for job_id in jobs_of(call)), "")
        line = found.message.removeprefix("invalid: ")
        raise Violation(line, str(found).splitlines()[1:], story=partial(_story, left, job_id, last))


# --- the history ------------------------------------------------------------------------------------------------------


def accepted(history: History) -> list[Call[Finish, Return]]:
    """The finishes that were not refused."""
    return [
        Call(call.process, call.op, call.invoked, call.returned, call.reply)
        for call in history
        if isinstance(call.op, Finish) and isinstance(call.reply, Return) and call.reply.value is not False
    ]


def tickets(history: History) -> defaultdict[str, Claims]:
    """By job, the claims that got it, and what they got."""
    tickets: defaultdict[str, Claims] = defaultdict(list)
    for call in history:
        if isinstance(call.reply, Return) and isinstance(call.reply.value, Ticket):
            tickets[call.reply.value.id].append((call, call.reply.value))
    return tickets


def _before(one: Call[Any, Any], other: Call[Any, Any]) -> bool:
    return one.returned is not None and one.returned < other.invoked


def _fail(left: Aftermath, job_id: str, what: str, *wrong: Call[Any, Any]) -> NoReturn:
    """With the last calls that have to do with this job; ``wrong`` are those that must not be."""
    calls = [call for call in left.history if job_id in jobs_of(call)]
    start = min((call.invoked for call in left.history), default=0)
    rows = [f"row: {job}" for job in left.rows.jobs if job.id == job_id]
    raise Violation(
        what, [*(_line(call, start) for call in calls[-SHOWN:]), *rows], story=partial(_story, left, job_id, wrong)
    )


def _story(left: Aftermath, job_id: str, wrong: Sequence[Call[Any, Any]]) -> dict[str, Any]:
    """The job, and the numbers of the calls that are wrong, for the timeline."""
    return {"job": job_id, "calls": [number for number, call in enumerate(left.history) if call in wrong]}


def jobs_of(call: Call[Op, Reply]) -> Iterator[str]:
    """The jobs that a call has to do with."""
    match call.op:
        case Enqueue(id=job_id) | Redrive(job_id=job_id) | Finish(ticket=Ticket(id=job_id)):
            yield job_id
    if isinstance(call.reply, Return) and isinstance(call.reply.value, Ticket):
        yield call.reply.value.id


def _line(call: Call[Op, Reply], start: int) -> str:
    """One call with its times in ms from the start of the storm on."""
    until = "killed" if call.reply is None or call.returned is None else f"{(call.returned - start) / MS:.3f}"
    said = "unknown" if call.reply is None else show(call.reply)
    return f"{(call.invoked - start) / MS:.3f}..{until}  {call.process}  {call.op!r}  # {said}"
