"""apply_event and consume_line: the next event, the same again, another one, and one that comes too early."""

from __future__ import annotations

import pytest

from model.contract import CONFLICT
from model.events import BAD_LINE, GAP, Apply, Consume, ack_line, event_line
from stateful_tests.guard import StoreGuard
from stateful_tests.stream_clauses import Keeps, Program, StoreFixture, follow

pytestmark = pytest.mark.layer("contract")

ZERO: Program = ((Apply(0, 7), True),)

APPLY: dict[str, Program] = {
    "a new store has processed nothing": (Keeps(-1, 0, ()),),
    "the first event is event 0": (*ZERO, Keeps(0, 7, ((0, 7),))),
    "no other event is the first": ((Apply(1, 7), GAP), (Apply(2, 7), GAP), Keeps(-1, 0, ()), *ZERO),
    "each event follows the one before": (
        *ZERO,
        (Apply(1, 8), True),
        (Apply(2, 9), True),
        Keeps(2, 24, ((0, 7), (1, 8), (2, 9))),
    ),
    "an event may change nothing": ((Apply(0, 0), True), Keeps(0, 0, ((0, 0),)), (Apply(0, 0), False)),
    "an event that changes nothing is known": ((Apply(0, 0), True), (Apply(0, 1), CONFLICT), (Apply(1, 1), True)),
    "an event may take away": (*ZERO, (Apply(1, -5), True), Keeps(1, 2, ((0, 7), (1, -5)))),
    "a total may fall below 0": (
        (Apply(0, -1000), True),
        (Apply(1, -1000), True),
        (Apply(2, 1), True),
        Keeps(2, -1999, ((0, -1000), (1, -1000), (2, 1))),
    ),
    "the ends of delta are right": (
        (Apply(0, 1000), True),
        (Apply(1, -1000), True),
        Keeps(1, 0, ((0, 1000), (1, -1000))),
    ),
    "the same delta later is another event": (*ZERO, (Apply(1, 7), True), Keeps(1, 14, ((0, 7), (1, 7)))),
    "the same event again is known": (
        *ZERO,
        (Apply(0, 7), False),
        (Apply(0, 7), False),
        (Apply(0, 7), False),
        Keeps(0, 7, ((0, 7),)),
    ),
    "the event after a known one is new": (*ZERO, (Apply(0, 7), False), (Apply(1, 1), True), (Apply(1, 1), False)),
    "an old event again is known": (
        *ZERO,
        (Apply(1, 8), True),
        (Apply(2, 9), True),
        (Apply(0, 7), False),
        (Apply(1, 8), False),
        (Apply(2, 9), False),
        Keeps(2, 24, ((0, 7), (1, 8), (2, 9))),
    ),
    "the last event is not another": (*ZERO, (Apply(0, 8), CONFLICT), (Apply(0, 6), CONFLICT), Keeps(0, 7, ((0, 7),))),
    "the sign tells two events apart": (*ZERO, (Apply(0, -7), CONFLICT), Keeps(0, 7, ((0, 7),))),
    "an old event is not another": (
        *ZERO,
        (Apply(1, 8), True),
        (Apply(2, 9), True),
        (Apply(0, 8), CONFLICT),
        (Apply(1, 9), CONFLICT),
        (Apply(1, 7), CONFLICT),
        Keeps(2, 24, ((0, 7), (1, 8), (2, 9))),
    ),
    "after a conflict the stream goes on": (*ZERO, (Apply(0, 8), CONFLICT), (Apply(0, 7), False), (Apply(1, 8), True)),
    "a gap of one is a gap": (*ZERO, (Apply(2, 7), GAP), Keeps(0, 7, ((0, 7),))),
    "a gap can be filled": (
        *ZERO,
        (Apply(2, 9), GAP),
        (Apply(1, 8), True),
        (Apply(2, 9), True),
        (Apply(1, 8), False),
        Keeps(2, 24, ((0, 7), (1, 8), (2, 9))),
    ),
    "what came too early is not remembered": (*ZERO, (Apply(2, 9), GAP), (Apply(1, 8), True), (Apply(2, 10), True)),
    "another connection goes on": (
        *ZERO,
        (Apply(0, 7), False, 2),
        (Apply(0, 8), CONFLICT, 2),
        (Apply(2, 8), GAP, 2),
        (Apply(1, 8), True, 2),
        (Apply(1, 8), False),
        (Apply(2, 9), True),
        Keeps(2, 24, ((0, 7), (1, 8), (2, 9))),
    ),
}

ACK_0: Program = ((Consume(b"EVENT 0 7\n"), b"ACK 0\n"),)

CONSUME: dict[str, Program] = {
    "a new event gets its ACK": (*ACK_0, Keeps(0, 7, ((0, 7),))),
    "each event gets its own ACK": (
        *ACK_0,
        (Consume(b"EVENT 1 -8\n"), b"ACK 1\n"),
        (Consume(b"EVENT 2 0\n"), b"ACK 2\n"),
        Keeps(2, -1, ((0, 7), (1, -8), (2, 0))),
    ),
    "the same event again gets its ACK again": (*ACK_0, *ACK_0, *ACK_0, Keeps(0, 7, ((0, 7),))),
    "an old event again gets its own ACK": (
        *ACK_0,
        (Consume(b"EVENT 1 -8\n"), b"ACK 1\n"),
        *ACK_0,
        (Consume(b"EVENT 1 -8\n"), b"ACK 1\n"),
        Keeps(1, -1, ((0, 7), (1, -8))),
    ),
    "an event in conflict gets none": (*ACK_0, (Consume(b"EVENT 0 8\n"), CONFLICT), Keeps(0, 7, ((0, 7),)), *ACK_0),
    "an old event in conflict gets none": (
        *ACK_0,
        (Consume(b"EVENT 1 8\n"), b"ACK 1\n"),
        (Consume(b"EVENT 0 8\n"), CONFLICT),
        Keeps(1, 15, ((0, 7), (1, 8))),
    ),
    "an event too early gets none": (
        (Consume(b"EVENT 1 8\n"), GAP),
        *ACK_0,
        (Consume(b"EVENT 2 8\n"), GAP),
        Keeps(0, 7, ((0, 7),)),
    ),
    "a bad line gets none": (
        *ACK_0,
        (Consume(b"EVENT 1 8"), BAD_LINE),
        (Consume(b"EVENT 1 8\r\n"), BAD_LINE),
        (Consume(b"EVENT 01 8\n"), BAD_LINE),
        (Consume(b"EVENT 1 1001\n"), BAD_LINE),
        (Consume(b"EVENT 1 8\nEVENT 2 9\n"), BAD_LINE),
        Keeps(0, 7, ((0, 7),)),
    ),
    "a line and a call are the same event": (
        (Apply(0, 7), True),
        *ACK_0,
        (Consume(b"EVENT 1 8\n"), b"ACK 1\n"),
        (Apply(1, 8), False),
        (Apply(1, 9), CONFLICT),
        Keeps(1, 15, ((0, 7), (1, 8))),
    ),
    "another connection acknowledges too": (
        *ACK_0,
        (Consume(b"EVENT 0 7\n"), b"ACK 0\n", 2),
        (Consume(b"EVENT 1 8\n"), b"ACK 1\n", 2),
        (Consume(b"EVENT 2 8\n"), b"ACK 2\n"),
    ),
}


@pytest.mark.parametrize("clause", APPLY)
def test_apply_event(store_lockstep: StoreFixture, clause: str) -> None:
    follow(store_lockstep(connections=2), APPLY[clause])


@pytest.mark.parametrize("clause", CONSUME)
def test_consume_line(store_lockstep: StoreFixture, clause: str) -> None:
    follow(store_lockstep(connections=2), CONSUME[clause])


# --- the reply comes last ---------------------------------------------------------------------------------------------


def test_an_ack_is_bytes_of_its_own(store: StoreGuard) -> None:
    for seq, delta in enumerate((7, -3, 0, *range(9))):
        line = event_line(seq, delta)
        ack = store.call("consume_line", store.con, line)
        right = type(ack) is bytes and ack == ack_line(seq)
        store.expect(right, f"{store.lines[-1]} returns {ack!r}, must return {ack_line(seq)!r}")


def test_a_reply_is_exactly_a_bool(store: StoreGuard) -> None:
    for must in (True, False):
        got = store.call("apply_event", store.con, 0, 7)
        store.expect(got is must, f"{store.lines[-1]} returns {got!r}, must return {must!r}")
