"""A value of the wrong form is a ValueError that changes nothing; every name and every default is the contract's."""

from __future__ import annotations

from typing import Any

import pytest

from model.events import BOUNDS, State
from stateful_tests.guard import StoreGuard
from stateful_tests.stream_clauses import FIVE
from stateful_tests.stream_forms import BAD_LINES, not_bytes, wrong_numbers

pytestmark = pytest.mark.layer("contract")

# Each is right in itself; one number of it that is made wrong must be refused, whatever the store holds.
SITUATIONS: dict[str, dict[str, int]] = {
    "the next event": {"seq": 5, "delta": 7},
    "the last event again": {"seq": 4, "delta": -1000},
    "event 1 again": {"seq": 1, "delta": -3},
    "event 0 again": {"seq": 0, "delta": 7},
    "an event in conflict": {"seq": 1, "delta": 3},
    "an event too early": {"seq": 6, "delta": 1},
}


def must_refuse(store: StoreGuard, before: State, function: str, *args: object) -> list[str]:
    """ValueError, and no row changed, not even to be changed back; the SQL that it executes."""
    statements: list[str] = []
    changes = store.con.total_changes
    store.con.set_trace_callback(statements.append)
    store.refused(ValueError, function, store.con, *args)
    store.con.set_trace_callback(None)
    store.expect(store.con.total_changes == changes, f"{store.lines[-1]} changes rows before it refuses")
    store.unchanged(before)
    store.did["refused values"] += 1
    return statements


@pytest.mark.parametrize("name", ["seq", "delta"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_wrong_number_is_refused(store: StoreGuard, situation: str, name: str) -> None:
    before, program = store.prepare(FIVE), list(store.lines)
    right = SITUATIONS[situation]
    for value in wrong_numbers(name, right[name]):
        store.lines[:] = program
        must_refuse(store, before, "apply_event", *{**right, name: value}.values())


def test_in_an_empty_store_minus_one_is_no_event(store: StoreGuard) -> None:
    """Not even where last is -1 itself."""
    before = store.rows()
    for delta in (0, 7, *BOUNDS["delta"]):
        must_refuse(store, before, "apply_event", -1, delta)


def refuse_line(store: StoreGuard, before: State, data: object) -> None:
    """A line is read before anything is done with it."""
    statements = must_refuse(store, before, "consume_line", data)
    store.expect(not statements, f"{store.lines[-1]} executes SQL before it refuses its line: {statements[:1]}")


@pytest.mark.parametrize("held", ["nothing", "five events"])
def test_a_bad_line_is_not_consumed(store: StoreGuard, held: str) -> None:
    before = store.prepare(FIVE if held == "five events" else ())
    program = list(store.lines)
    for data in BAD_LINES.values():
        store.lines[:] = program
        refuse_line(store, before, data)
        store.refused(store.client.BadLine, "consume_line", store.con, data)


@pytest.mark.parametrize("digits", [50, 56, 100, 5000])
def test_a_line_too_long_is_not_consumed(store: StoreGuard, digits: int) -> None:
    before = store.prepare(FIVE)
    refuse_line(store, before, b"EVENT 5 %b\n" % (b"1" * digits))
    refuse_line(store, before, b"EVENT 5 7\n" + b" " * digits)


@pytest.mark.parametrize("event", ["the next", "the last"])
def test_only_exact_bytes_are_consumed(store: StoreGuard, event: str) -> None:
    before, program = store.prepare(FIVE), list(store.lines)
    for data in not_bytes(b"EVENT 5 7\n" if event == "the next" else b"EVENT 4 -1000\n").values():
        store.lines[:] = program
        refuse_line(store, before, data)


# --- names ------------------------------------------------------------------------------------------------------------


def test_what_is_left_out_has_no_fault(store: StoreGuard) -> None:
    store.call("apply_event", store.con, 0, 7)
    store.call("consume_line", store.con, b"EVENT 1 8\n")
    store.call("apply_event", store.con, 2, 9, None)
    store.call("consume_line", store.con, b"EVENT 3 0\n", None)
    last = store.rows().checkpoint[0].last
    store.expect(last == 3, f"four events without a fault leave last {last}, must leave 3")


def test_every_argument_has_its_name(store: StoreGuard) -> None:
    con = store.con
    store.call("apply_event", con=con, seq=0, delta=7, fault=None)
    store.call("consume_line", con=con, data=b"EVENT 1 8\n", fault=None)
    event = store.call("parse_line", data=b"EVENT 1 8\n")
    store.expect(event == (1, 8), f"{store.lines[-1]} returns {event!r}, must return (1, 8)")
    events: Any = store.call("replay", log=[(0, 7), (1, 8)], cursor=0, limit=16)
    store.expect([*events] == [(1, 8)], f"{store.lines[-1]} returns {events!r}, must return [(1, 8)]")
    store.call("open_store", path=store.path).close()


def test_a_hook_gets_its_name_alone(store: StoreGuard) -> None:
    got: list[tuple[object, ...]] = []
    store.call("apply_event", store.con, 0, 7, lambda *args: got.append(args))
    store.call("consume_line", store.con, b"EVENT 1 8\n", lambda *args: got.append(args))
    must = [("after-total",), ("after-commit",)] * 2
    store.expect(got == must, f"{store.lines[-1]} calls its hooks with {got}, must call them with {must}")
