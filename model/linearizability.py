"""Is there an order of a concurrent history that the model accepts?

The search knows nothing of queues. A configuration is the set of calls that have been placed in the order and the state
they lead to; from one, any call may be placed next that was invoked before the first unplaced one returned. Depth
first, never twice through the same configuration.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, Literal, TypeVar

from model import lease
from model.contract import LOCKED, Enqueue, Job, Op, Redrive, Reply, Return, State, Ticket, plain
from model.counterexample import differences
from model.history import Call, cut

S = TypeVar("S", bound=Hashable)
O = TypeVar("O")  # noqa: E741 - the operations, as S the states and R the replies
R = TypeVar("R")

BUDGET = 300_000
"""Steps of the model before a verdict is given up: well under a minute."""

SHOWN = 6
"""Calls of each kind that a failure shows."""


@dataclass(frozen=True, slots=True)
class Spec(Generic[S, O, R]):
    """What a history is judged by. ``fails`` are the replies that say that nothing happened, legal in every state.

    The others make the search shorter. ``once(reply)``: what no two calls of one order can be given, or None.
    ``outlook(initial, calls, final)(state)``: the state without what none of the calls can see, or None if it can lead
    neither to all their replies nor to the final state. ``first(calls)(one, other)``: whether to try ``one`` before
    ``other``, although it returned later.
    """

    initial: S
    step: Callable[[S, O], tuple[S, R]]
    fails: Collection[R] = ()
    once: Callable[[R], Hashable] = lambda _reply: None
    outlook: Callable[[S, Sequence[Call[O, R]], S | None], Callable[[S], S | None]] = lambda _initial, _calls, _final: (
        lambda state: state
    )
    first: Callable[[Sequence[Call[O, R]]], Callable[[Call[O, R], Call[O, R]], bool]] = lambda _calls: (
        lambda _one, _other: False
    )
    differences: Callable[[S, S], str] = lambda got, want: f"{got!r}, must be {want!r}"


@dataclass(frozen=True, slots=True)
class Verdict(Generic[O, R]):
    """valid: ``order`` is one that the model accepts. invalid: ``prefix`` is what was known at the earliest return that
    no order explains, or everything if only the final state is unexplained. unknown: the budget was used up before.

    ``message`` is one line; ``order``, unless valid, is the longest that was found.
    """

    verdict: Literal["valid", "invalid", "unknown"]
    message: str
    steps: int
    order: tuple[Call[O, R], ...]
    prefix: tuple[Call[O, R], ...] = ()

    def __str__(self) -> str:
        """The line, and for an invalid history the end of the longest order and the calls that have no place in it."""
        if self.verdict != "invalid":
            return self.message
        left = Counter(self.prefix)
        left.subtract(self.order)
        placed, rest = self.order[-SHOWN:], list((+left).elements())[-SHOWN:]
        listed = ["the order ends:", *map(str, placed), "without a place:", *map(str, rest)]
        return "\n".join([self.message, *(f"    {line}" for line in listed)])


def check(
    history: Sequence[Call[O, R]], spec: Spec[S, O, R], final: S | None = None, budget: int = BUDGET
) -> Verdict[O, R]:
    """Whether the calls can be placed one after another so that each gets its reply and none stands before a call that
    had returned when it was invoked; an info call may be left out. ``final``, if given, is the state they must lead to.

    At most ``budget`` steps of the model. The prefix of an invalid history is the shortest, unless the budget ends
    while it is looked for; that it has no order is true in any case.
    """
    found = _search(history, spec, final, budget)
    if found.verdict == "valid":
        return Verdict("valid", f"valid: an order of {len(found.order)} calls", found.steps, found.order)
    if found.verdict == "unknown":
        line = f"unknown: no answer after {found.steps} steps; the longest order has {len(found.order)} calls"
        return Verdict("unknown", line, found.steps, found.order)
    if final is None:
        return _shortest(history, spec, found, budget)
    free = _search(history, spec, None, budget - found.steps)
    free = replace(free, steps=free.steps + found.steps)
    return _shortest(history, spec, free, budget) if free.verdict == "invalid" else _bad_end(history, spec, final, free)


def _shortest(history: Sequence[Call[O, R]], spec: Spec[S, O, R], found: _Found[S, O, R], budget: int) -> Verdict[O, R]:
    """Bisect, as a history has an order if a longer one has; most often it is the very return that was not passed."""
    ends = sorted({_end(call) for call in history if _is_answered(call, spec)})
    steps, low, high = found.steps, _explained(ends, found), len(ends)
    probe = low + 1
    while low + 1 < high:
        tried = _search(cut(history, ends[probe - 1]), spec, None, budget - steps)
        steps += tried.steps
        if tried.verdict == "unknown":
            break
        if tried.verdict == "valid":
            low = probe
        else:
            high, low, found = probe, max(low, _explained(ends, tried)), tried
        probe = (low + high) // 2
    prefix = cut(history, ends[high - 1])
    return Verdict("invalid", _line(prefix, spec, found, ends[high - 1]), steps, found.order, prefix)


def _explained(ends: Sequence[int], found: _Found[S, O, R]) -> int:
    """How many of the returns the longest order explains."""
    return len(ends) if found.stuck is None else ends.index(found.stuck)


def _line(prefix: Sequence[Call[O, R]], spec: Spec[S, O, R], found: _Found[S, O, R], end: int) -> str:
    last = next(call for call in prefix if call.returned == end and _is_answered(call, spec))
    count = sum(call.reply is not None for call in prefix)
    answer = spec.step(found.state, last.op)[1]
    return (
        f"invalid: no order explains the first {count} returns: {last}; the model, after the longest order: {answer!r}"
    )


def _bad_end(history: Sequence[Call[O, R]], spec: Spec[S, O, R], final: S, free: _Found[S, O, R]) -> Verdict[O, R]:
    state = spec.initial
    for call in free.order:
        state, _ = spec.step(state, call.op)
    line = f"invalid: no order ends in the final state; after one of them: {spec.differences(final, state)}"
    return Verdict("invalid", line, free.steps, free.order, tuple(history))


# --- the search -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan(Generic[S, O, R]):
    """Calls by number, in the order in which they are tried: answered ones as they returned, then info, latest first.

    Sets of calls are the bits of an int. ``windows[n]`` is what was invoked before call ``n`` returned, the last one is
    all; ``after[n]`` is what was invoked after info call ``n`` was gone.
    """

    calls: tuple[Call[O, R], ...]
    answered: int
    windows: tuple[int, ...]
    after: Mapping[int, int]
    given: frozenset[Hashable]
    outlook: Callable[[S], S | None]
    hints: tuple[int, ...]


def _end(call: Call[O, R]) -> int:
    return call.invoked if call.returned is None else call.returned


def _is_answered(call: Call[O, R], spec: Spec[S, O, R]) -> bool:
    return call.reply is not None and call.reply not in spec.fails


def _plan(history: Sequence[Call[O, R]], spec: Spec[S, O, R], final: S | None) -> _Plan[S, O, R]:
    answered = sorted((call for call in history if _is_answered(call, spec)), key=_end)
    info = sorted((call for call in history if call.reply is None), key=lambda call: -call.invoked)
    calls = (*answered, *info)
    windows = (*_windows(calls, answered), (1 << len(calls)) - 1)
    return _Plan(
        calls,
        len(answered),
        windows,
        {
            n: _bits(calls, call.returned)
            for n, call in enumerate(calls)
            if call.reply is None and call.returned is not None
        },
        frozenset(spec.once(call.reply) for call in answered if call.reply is not None) - {None},
        spec.outlook(spec.initial, calls, final),
        tuple(_hints(calls, windows, spec)),
    )


def _hints(calls: Sequence[Call[O, R]], windows: Sequence[int], spec: Spec[S, O, R]) -> Iterator[int]:
    """Of each call, the later ones among which it could stand that had better be tried first."""
    first = spec.first(calls)
    for number, call in enumerate(calls):
        later = windows[min(number, len(windows) - 1)] >> number + 1 << number + 1
        yield sum(1 << other for other in _numbers(later) if first(calls[other], call))


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _bits(calls: Sequence[Call[O, R]], time: int) -> int:
    """The calls that were invoked later than ``time``."""
    return sum(1 << n for n, call in enumerate(calls) if call.invoked > time)


def _windows(calls: Sequence[Call[O, R]], answered: Sequence[Call[O, R]]) -> Iterator[int]:
    by_invoke = deque(sorted(range(len(calls)), key=lambda n: calls[n].invoked))
    window = 0
    for call in answered:
        while by_invoke and calls[by_invoke[0]].invoked <= _end(call):
            window |= 1 << by_invoke.popleft()
        yield window


@dataclass(slots=True)
class _Node(Generic[S]):
    """A configuration: the calls that are placed, the state, the calls to try next; and how it was reached."""

    placed: int
    state: S
    todo: int
    via: int = -1
    parent: _Node[S] | None = None


@dataclass(frozen=True, slots=True)
class _Found(Generic[S, O, R]):
    """What a search found: an order, or the longest one and the time of the return that stopped it."""

    verdict: Literal["valid", "invalid", "unknown"]
    order: tuple[Call[O, R], ...]
    state: S
    stuck: int | None
    steps: int


def _search(history: Sequence[Call[O, R]], spec: Spec[S, O, R], final: S | None, budget: int) -> _Found[S, O, R]:
    plan = _plan(history, spec, final)
    must = (1 << plan.answered) - 1
    best = _Node(0, spec.initial, plan.windows[0])
    stack, seen, steps = [best], dict[tuple[int, S], list[int]](), 0
    while stack and steps < budget:
        node = stack[-1]
        if node.placed & must == must and (final is None or node.state == final):
            return _found("valid", plan, node, steps)
        if not node.todo:
            stack.pop()
            continue
        steps += 1
        child = _next(node, plan, spec)
        if child is not None and not _was_seen(child, seen, plan.answered):
            stack.append(child)
            best = max(best, child, key=lambda one: _target(one.placed))
    return _found("unknown" if stack else "invalid", plan, best, steps)


def _found(
    verdict: Literal["valid", "invalid", "unknown"], plan: _Plan[S, O, R], last: _Node[S], steps: int
) -> _Found[S, O, R]:
    order: deque[Call[O, R]] = deque()
    node = last
    while node.parent is not None:
        order.appendleft(plan.calls[node.via])
        node = node.parent
    target = _target(last.placed)
    stuck = _end(plan.calls[target]) if target < plan.answered else None
    return _Found(verdict, tuple(order), last.state, stuck, steps)


def _target(placed: int) -> int:
    """The number of the first call that is not placed: if it is answered, none that was invoked later can be next."""
    return (~placed & (placed + 1)).bit_length() - 1


def _choice(todo: int, hints: Sequence[int]) -> int:
    number = (todo & -todo).bit_length() - 1
    while better := todo & hints[number]:
        number = (better & -better).bit_length() - 1
    return number


def _next(node: _Node[S], plan: _Plan[S, O, R], spec: Spec[S, O, R]) -> _Node[S] | None:
    """Try one more call in this configuration."""
    number = _choice(node.todo, plan.hints)
    bit = 1 << number
    node.todo ^= bit
    call = plan.calls[number]
    state, reply = spec.step(node.state, call.op)
    if number < plan.answered:
        if reply != call.reply:
            return None
    elif state == node.state or node.placed & plan.after.get(number, 0) or spec.once(reply) in plan.given:
        return None
    kept = plan.outlook(state)
    if kept is None:
        return None
    placed = node.placed | bit
    todo = plan.windows[min(_target(placed), plan.answered)] & ~placed
    return _Node(placed, kept, todo, number, node)


def _was_seen(node: _Node[S], seen: dict[tuple[int, S], list[int]], answered: int) -> bool:
    """Whether the same state was reached with the same answered calls and no other info calls: what is left over can
    only help.
    """
    info = node.placed >> answered
    known = seen.setdefault((node.placed & ((1 << answered) - 1), node.state), [])
    if any(info & other == other for other in known):
        return True
    known.append(info)
    return False


# --- the lease queue --------------------------------------------------------------------------------------------------


def _issued(reply: Reply | None) -> tuple[str, int] | None:
    """A token of a job is issued once."""
    ticket = reply.value if isinstance(reply, Return) else None
    return (ticket.id, ticket.token) if isinstance(ticket, Ticket) else None


def _outlook(initial: State, calls: Sequence[Call[Op, Reply]], final: State | None) -> Callable[[State], State | None]:
    """With the final rows at hand, each state must lead to them; otherwise, what nobody will see is forgotten."""
    if final is None:
        return _Unseen(initial, calls)
    return lambda state: state if _leads(state, final) else None


class _Unseen:
    """The state without the audit and the jobs that are closed for good; of one that another enqueue may name, its
    identity stays. None if a job is closed for good before its last ticket.
    """

    def __init__(self, initial: State, calls: Sequence[Call[Op, Reply]]) -> None:
        asked = [plain(call.op) for call in calls]
        self.made = Counter([op.id for op in asked if isinstance(op, Enqueue)] + [job.id for job in initial.jobs])
        self.redriven = {op.job_id for op in asked if isinstance(op, Redrive)}
        self.tokens = dict(sorted(filter(None, (_issued(call.reply) for call in calls))))

    def __call__(self, state: State) -> State | None:
        jobs = []
        for job in state.jobs:
            if job.status not in ("done", "dead") or job.id in self.redriven or job.max_attempts == 0:
                jobs.append(job)
            elif job.token < self.tokens.get(job.id, 0):
                return None
            elif self.made[job.id] > 1:
                jobs.append(Job(job.seq, job.id, job.qty, "done", 0, 0, 0, 0, 0, None, None, None))
        return State(tuple(jobs))


def _leads(state: State, final: State) -> bool:
    """Rows and audit only grow, tokens never fall, done is for good, and so is dead without another redrive."""
    written = len(state.redrives)
    if final.redrives[:written] != state.redrives or len(state.jobs) > len(final.jobs):
        return False
    redriven = {audit.id for audit in final.redrives[written:]}
    return all(
        job == last or (_may_become(job, last) and (job.id in redriven or job.status != "dead"))
        for job, last in zip(state.jobs, final.jobs, strict=False)
    )


def _may_become(job: Job, last: Job) -> bool:
    same = (job.seq, job.id, job.qty, job.max_attempts) == (last.seq, last.id, last.qty, last.max_attempts)
    return same and job.status != "done" and job.token <= last.token


def _first(calls: Sequence[Call[Op, Reply]]) -> Callable[[Call[Op, Reply], Call[Op, Reply]], bool]:
    """Jobs are handed out in the order in which they came: so their enqueues are tried, and those of no ticket last."""
    handed: dict[str, int] = {}
    for call in sorted(calls, key=_end, reverse=True):
        if issued := _issued(call.reply):
            handed[issued[0]] = _end(call)

    def rank(call: Call[Op, Reply]) -> float | None:
        if not isinstance(call.op, Enqueue):
            return None
        return handed.get(call.op.id, inf)

    def first(one: Call[Op, Reply], other: Call[Op, Reply]) -> bool:
        mine, its = rank(one), rank(other)
        if its == inf and other.reply is None:
            return mine != inf
        return mine is not None and its is not None and mine < its

    return first


QUEUE: Spec[State, Op, Reply] = Spec(lease.EMPTY, lease.step, (LOCKED,), _issued, _outlook, _first, differences)
"""The lease queue from an empty file on. A final state has its ``seq`` counted from 1 without gaps, as the model's."""
