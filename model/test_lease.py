"""The model's own laws: what a crash keeps, what a reader blocks, which hooks are called."""

from __future__ import annotations

import pytest

from model.contract import (
    CONFLICT,
    LOCKED,
    PLANTED,
    REFUSED,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Op,
    Redrive,
    Reopen,
    Reply,
    Return,
    RunOnce,
    State,
    Ticket,
)
from model.lease import EMPTY, hooks_reached, in_bounds, retry_delay, step

TICKET = Ticket("a", 5, "w", token=1, attempt=1, lease_until=100)


def after(*ops: Op) -> State:
    state = EMPTY
    for op in ops:
        state, _ = step(state, op)
    return state


QUEUED = after(Enqueue("a", 5, 0, 50_000))
LEASED = after(Enqueue("a", 5, 0, 50_000), Claim("w", 0, 100))
DEAD = after(Enqueue("a", 5, 0, 50_000), Claim("w", 0, 100), Finish(TICKET, "permanent", 1))


@pytest.mark.parametrize(
    ("before", "op", "hooks"),
    [
        (QUEUED, Claim("w", 0, 100), ["after-claim", "after-commit"]),
        (LEASED, Finish(TICKET, "ok", 1), ["after-finish", "after-commit"]),
        (DEAD, Redrive("a", 1, 10, "n"), ["after-audit", "after-redrive", "after-commit"]),
        (EMPTY, Claim("w", 0), []),
        (LEASED, Finish(TICKET, "ok", 100), []),
        (QUEUED, Redrive("a", 1, 10, "n"), []),
        (EMPTY, Enqueue("a", 5, 0, 1), []),
        (QUEUED, RunOnce("w", 0, 1), []),
    ],
)
def test_hooks_belong_to_the_change(before: State, op: Op, hooks: list[str]) -> None:
    assert [hook.name for hook in hooks_reached(before, op)] == hooks


@pytest.mark.parametrize(
    ("before", "op"),
    [(QUEUED, Claim("w", 0, 100)), (LEASED, Finish(TICKET, "ok", 1)), (DEAD, Redrive("a", 1, 10, "n"))],
)
def test_a_crash_keeps_all_or_nothing(before: State, op: Claim | Finish | Redrive) -> None:
    whole, _ = step(before, op)
    assert whole != before
    for hook in hooks_reached(before, op):
        crash = Crash(op, hook.name)
        assert step(before, crash) == (whole if hook.kept else before, PLANTED)
        assert hooks_reached(before, crash)[-1] == hook


def test_a_crash_needs_its_hook() -> None:
    assert step(EMPTY, Crash(Claim("w", 0), "after-claim")) == step(EMPTY, Claim("w", 0))
    assert step(QUEUED, Crash(Claim("w", 0), "after-finish")) == step(QUEUED, Claim("w", 0))


def test_a_reader_blocks_only_changes() -> None:
    assert step(QUEUED, Blocked(Claim("w", 0))) == (QUEUED, LOCKED)
    assert step(LEASED, Blocked(Claim("w", 0))) == (LEASED, Return(None))
    assert [hook.name for hook in hooks_reached(QUEUED, Blocked(Claim("w", 0)))] == ["after-claim"]


@pytest.mark.parametrize(
    "op",
    [Claim("w", 10), Finish(TICKET, "ok", 100), Enqueue("a", 5, 9, 9), Redrive("a", 9, 9, "n"), Reopen()],
)
def test_without_a_change_the_state_is_the_same_object(op: Op) -> None:
    assert step(LEASED, op)[0] is LEASED


@pytest.mark.parametrize(
    ("op", "reply"),
    [
        (Enqueue("a", 6, 0, 1), CONFLICT),
        (Enqueue("b", 1001, 0, 1), REFUSED),
        (Claim("w", -1), REFUSED),
        (Finish(TICKET, "stale", 1), REFUSED),
        (Finish(Ticket("a", 5, "w", 0, 1, 100), "ok", 1), REFUSED),
        (Redrive("missing", 1, 1, "n"), REFUSED),
    ],
)
def test_what_is_refused_changes_nothing(op: Op, reply: Reply) -> None:
    assert step(LEASED, op) == (LEASED, reply)


def test_every_bound_allows_its_two_ends() -> None:
    assert in_bounds(Enqueue("a", 1, 0, 1, 1))
    assert in_bounds(Enqueue("a", 1000, 10**15 - 60_000, 60_000, 16))
    assert not in_bounds(Enqueue("a", 1, 0, 60_001))


def test_a_wrong_second_reading_keeps_the_claim() -> None:
    leased, _ = step(QUEUED, Claim("w", 10, 5))
    assert step(QUEUED, RunOnce("w", 10, 9, lease_ms=5)) == (leased, REFUSED)
    assert step(QUEUED, RunOnce("w", 10, 10**15, lease_ms=5)) == (leased, REFUSED)


@pytest.mark.parametrize(
    ("arguments", "delay_ms"),
    [((1, 100, 1000, 0.29), 28), ((16, 60_000, 60_000, 1.0), 60_000), ((5, 100, 1000, 1), 1000), ((1, 1, 1, 0), 0)],
)
def test_a_delay_is_capped_then_scaled_then_floored(arguments: tuple[int, int, int, float], delay_ms: int) -> None:
    assert retry_delay(*arguments) == delay_ms
