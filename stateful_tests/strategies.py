"""What Hypothesis draws for the queue: small domains, so that times meet, ids collide and tickets grow old.

Connections and endings are drawn alike for both systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from model.contract import (
    BOUNDS,
    OUTCOMES,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Hook,
    Planted,
    State,
    Ticket,
)

P = TypeVar("P")
"""A plain operation of one of the two contracts."""

Ending = str | tuple[int, Planted]

EPOCHS = (0, BOUNDS["now_ms"].high - 6)
"""Where a program's time begins: at both ends of what is allowed."""

ids = st.sampled_from("abc")
owners = st.sampled_from(("v", "w"))
quantities = st.sampled_from((1, 1, 1, 2))
spans = st.sampled_from((1, 2, 3, 4, 5, 6, 60_000))
budgets = st.integers(1, 3)
outcomes = st.sampled_from(OUTCOMES)
connections = st.integers(1, 3)
sends = st.sampled_from(("ok", "ok", "retryable", "permanent", "bad-ack", "error"))
jitters = st.sampled_from((0, 0.05, 0.5, 1, 1.0))
choices = st.integers(0, 31)
"""A number that stands for one of the moments, or delays, that matter when it is used; 0 is the earliest."""

_planted: SearchStrategy[Planted] = st.sampled_from(("Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"))
endings = st.one_of(
    st.just("whole"),
    st.just("whole"),
    st.just("blocked"),
    st.tuples(st.integers(0, 2), _planted),
)
"""How an operation ends: undisturbed, under a reader's lock, or in one of its hooks (by number) with an error."""

spoils = st.one_of(st.none(), st.none(), st.sampled_from(Ticket.__slots__))
"""Which field of a ticket is falsified before it is shown; mostly none."""


def ended(op: P, hooks: Sequence[Hook], ending: Ending) -> P | Crash[P] | Blocked[P]:
    """``op``, which has these hooks, with its ending; one without hooks can only be blocked."""
    if ending == "blocked":
        return Blocked(op)
    if isinstance(ending, str) or not hooks:
        return op
    number, error = ending
    return Crash(op, hooks[number % len(hooks)].name, error)


def spoiled(ticket: Ticket, field: str | None) -> Ticket:
    """The ticket with one field changed to another value of the right form."""
    if field is None:
        return ticket
    value: Any = getattr(ticket, field)
    changed: dict[str, Any] = {field: f"{value}x" if isinstance(value, str) else value % BOUNDS[field].high + 1}
    return replace(ticket, **changed)


others = st.lists(
    st.one_of(
        st.builds(Claim, owners, choices, spans),
        st.builds(Enqueue, ids, quantities, choices, spans, budgets),
    ),
    max_size=2,
)
"""What others do while a send is under way; their ``now_ms`` is a choice, not yet a time."""


def moment(state: State, epoch_ms: int, choice: int) -> int:
    """A time, ms: mostly one before, at or one after an instant at which a row of ``state`` changes its meaning."""
    instants = {epoch_ms + ms for ms in range(3)}
    for job in state.jobs:
        for instant in (job.available_at, job.deadline, job.lease_until or 0):
            instants.update((instant - 1, instant, instant + 1))
    return _chosen(filter(BOUNDS["now_ms"].allows, instants), choice)


def delay(state: State, ticket: Ticket, now_ms: int, choice: int) -> int:
    """A delay, ms: mostly one that ends just before, at or just after the job's deadline."""
    delays = {0, 1}
    for job in state.jobs:
        if job.id == ticket.id:
            left_ms = job.deadline - now_ms
            delays.update((left_ms - 1, left_ms, left_ms + 1))
    return _chosen(filter(BOUNDS["delay_ms"].allows, delays), choice)


def _chosen(values: Iterable[int], choice: int) -> int:
    ordered = sorted(values)
    return ordered[choice % len(ordered)]
