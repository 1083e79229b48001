"""Every earlier event is known, every far one is a gap, and one that the ledger has lost is damage."""

from __future__ import annotations

import random

import pytest

from model.events import BOUNDS, Apply, Consume, Plain, event_line
from stateful_tests.guard import StoreGuard
from stateful_tests.stream_clauses import FIVE, StoreFixture, StorePair, prepare

pytestmark = pytest.mark.layer("contract")


def applied(seq: int, delta: int) -> Plain:
    return Apply(seq, delta)


def consumed(seq: int, delta: int) -> Plain:
    return Consume(event_line(seq, delta))


WAYS = {"apply_event": applied, "consume_line": consumed}


@pytest.fixture
def many(store_lockstep: StoreFixture, seed: int) -> tuple[StorePair, list[int]]:
    """A store of thirty events, and their deltas; no two neighbours have the same."""
    chance = random.Random(seed)  # noqa: S311 - a seeded choice
    deltas = [chance.randrange(-1000, 1000) // 2 * 2 + seq % 2 for seq in range(30)]
    pair = store_lockstep()
    prepare(pair, tuple(Apply(seq, delta) for seq, delta in enumerate(deltas)))
    return pair, deltas


@pytest.mark.parametrize("way", WAYS)
def test_every_earlier_event_is_known(many: tuple[StorePair, list[int]], way: str) -> None:
    pair, deltas = many
    for seq, delta in reversed(list(enumerate(deltas))):
        pair.do(WAYS[way](seq, delta))


@pytest.mark.parametrize("way", WAYS)
def test_every_earlier_event_can_be_in_conflict(many: tuple[StorePair, list[int]], way: str) -> None:
    pair, deltas = many
    for seq, delta in enumerate(deltas):
        others = {delta - 1, delta + 1, -delta, 0, deltas[-1], deltas[seq - 1], sum(deltas)} - {delta}
        for other in sorted(others):
            if BOUNDS["delta"].allows(other):
                pair.do(WAYS[way](seq, other))


FAR = {
    **{f"last + {step}": 4 + step for step in (2, 3, 10, 1000)},
    **{f"2**{power}": 2**power for power in (16, 31, 32, 53, 63, 64, 65, 128)},
    **{f"2**{power} - 1": 2**power - 1 for power in (31, 32, 63, 64)},
    # As last + 1, but for the bits that do not fit.
    **{f"2**{power} + 5": 2**power + 5 for power in (16, 31, 32, 53, 63, 64, 128)},
    **{f"2**{power} + 4": 2**power + 4 for power in (32, 64)},
    **{f"10**{power}": 10**power for power in (9, 18, 19, 50, 53)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seq", FAR)
def test_a_far_event_is_a_gap(store_lockstep: StoreFixture, seq: str, way: str) -> None:
    pair = store_lockstep()
    prepare(pair, FIVE)
    pair.do(WAYS[way](FAR[seq], 0))
    pair.do(WAYS[way](5, 1))


@pytest.mark.parametrize("way", WAYS)
def test_in_an_empty_store_a_far_event_is_a_gap(store_lockstep: StoreFixture, way: str) -> None:
    pair = store_lockstep()
    for seq in FAR.values():
        pair.do(WAYS[way](seq, 0))


def test_no_digits_are_too_many_for_a_gap(store: StoreGuard) -> None:
    before = store.prepare(FIVE)
    for power in (400, 4000):
        store.refused(store.client.Gap, "apply_event", store.con, 10**power, 7)
        store.unchanged(before)


# --- damage -----------------------------------------------------------------------------------------------------------


ALIKE = tuple(Apply(seq, 7) for seq in range(5))
"""Five events with one delta: where a row is lost, the next one looks like it."""


def lose(store: StoreGuard, seqs: tuple[int, ...]) -> None:
    """Remove these events from the ledger, which no operation does."""
    store.prepare(ALIKE)
    for seq in seqs:
        statement = f"DELETE FROM ledger WHERE seq = {seq}"
        store.other.execute(statement).close()
        store.lines.append(f'con1.execute("{statement}")')


LOSSES = {"the first": (0,), "one in the middle": (2,), "the last": (4,), "all": (0, 1, 2, 3, 4)}
DELTAS = {"its delta": 7, "another delta": -7, "a delta of 0": 0}


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", LOSSES)
def test_an_event_without_its_row_is_an_error(store: StoreGuard, loss: str, way: str, delta: str) -> None:
    lose(store, LOSSES[loss])
    before = store.rows()
    for seq in LOSSES[loss]:
        args = (seq, DELTAS[delta]) if way == "apply_event" else (event_line(seq, DELTAS[delta]),)
        result, error = store.attempt(way, store.con, *args)
        store.expect(
            isinstance(error, Exception),
            f"{store.lines[-1]} returns {result!r} though the ledger has lost the event, must raise an error",
        )
        store.unchanged(before)
