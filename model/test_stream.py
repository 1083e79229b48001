"""The model of the store answers as the contract says, and its properties can fail."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from model import events, stream
from model.contract import CONFLICT, LOCKED, PLANTED, REFUSED, Blocked, Crash, Reopen, Reply, Return
from model.events import (
    BAD_LINE,
    FAULT_HOOKS,
    GAP,
    RESYNC_REQUIRED,
    Apply,
    Checkpoint,
    Consume,
    Entry,
    Op,
    State,
    event_line,
    parse,
)
from model.explorer import Broken, explore
from model.stream_invariants import INVARIANTS, LAWS
from model.stream_scopes import FAR, SCOPES

TWO = State((Checkpoint(1, 1, 4),), (Entry(0, 7), Entry(1, -3)))
THREE = State((Checkpoint(1, 2, 4),), (*TWO.ledger, Entry(2, 0)))

# --- step -------------------------------------------------------------------------------------------------------------

ANSWERS: dict[Op, tuple[State, Reply]] = {
    Apply(2, 0): (THREE, Return(value=True)),
    Apply(1, -3): (TWO, Return(value=False)),
    Apply(0, 7): (TWO, Return(value=False)),
    Apply(1, 7): (TWO, CONFLICT),
    Apply(0, -3): (TWO, CONFLICT),
    Apply(3, 0): (TWO, GAP),
    Apply(FAR, 0): (TWO, GAP),
    Apply(-1, 0): (TWO, REFUSED),
    Apply(2, 1001): (TWO, REFUSED),
    Apply(2, -1001): (TWO, REFUSED),
    Consume(b"EVENT 2 0\n"): (THREE, Return(b"ACK 2\n")),
    Consume(b"EVENT 0 7\n"): (TWO, Return(b"ACK 0\n")),
    Consume(b"EVENT 0 8\n"): (TWO, CONFLICT),
    Consume(b"EVENT 3 0\n"): (TWO, GAP),
    Consume(event_line(FAR, 0)): (TWO, GAP),
    Consume(b"EVENT 2 0"): (TWO, BAD_LINE),
    Consume(b"EVENT 2 1001\n"): (TWO, BAD_LINE),
    Crash(Apply(2, 0), "after-total"): (TWO, PLANTED),
    Crash(Apply(2, 0), "after-commit"): (THREE, PLANTED),
    Crash(Consume(b"EVENT 2 0\n"), "after-total"): (TWO, PLANTED),
    Crash(Consume(b"EVENT 2 0\n"), "after-commit"): (THREE, PLANTED),
    Crash(Apply(1, -3), "after-total"): (TWO, Return(value=False)),
    Crash(Apply(3, 0), "after-commit"): (TWO, GAP),
    Crash(Apply(2, 0), "after-claim"): (THREE, Return(value=True)),
    Blocked(Apply(2, 0)): (TWO, LOCKED),
    Blocked(Consume(b"EVENT 2 0\n")): (TWO, LOCKED),
    Blocked(Apply(1, -3)): (TWO, Return(value=False)),
    Blocked(Consume(b"no line")): (TWO, BAD_LINE),
    Reopen(): (TWO, Return(None)),
}
"""What is asked of a store that holds two events, and what must come of it."""


@pytest.mark.parametrize("op", ANSWERS, ids=repr)
def test_a_store_answers_as_the_contract_says(op: Op) -> None:
    after, reply = stream.step(TWO, op)
    assert (after, reply) == ANSWERS[op]
    assert (after is TWO) == (after == TWO), "an unchanged state is the same object"


@pytest.mark.parametrize(
    ("op", "hooks"),
    [
        (Apply(2, 0), ["after-total", "after-commit"]),
        (Consume(b"EVENT 2 0\n"), ["after-total", "after-commit"]),
        (Apply(1, -3), []),
        (Apply(1, 0), []),
        (Apply(3, 0), []),
        (Consume(b"EVENT 2 00\n"), []),
        (Crash(Apply(2, 0), "after-total"), ["after-total"]),
        (Crash(Apply(2, 0), "after-commit"), ["after-total", "after-commit"]),
        (Crash(Apply(2, 0), "after-claim"), ["after-total", "after-commit"]),
        (Blocked(Apply(2, 0)), ["after-total"]),
        (Reopen(), []),
    ],
    ids=repr,
)
def test_hooks_are_reached_on_the_way_to_a_change(op: Op, hooks: list[str]) -> None:
    assert [hook.name for hook in stream.hooks_reached(TWO, op)] == hooks


def test_a_program_reads_back_as_itself() -> None:
    for op in ANSWERS:
        assert parse(repr(op)) == op
    for text in ("", "Apply(1)", "Claim('w', 0)", "__import__('os')", "Apply(1, 2", "7"):
        with pytest.raises(ValueError, match="not an operation"):
            parse(text)


# --- lines ------------------------------------------------------------------------------------------------------------

NUMBERS = (
    b"0",
    b"1",
    b"7",
    b"10",
    b"-1",
    b"-0",
    b"00",
    b"01",
    b"+1",
    b"1_0",
    b"",
    b"\xd9\xa3",
    b"999",
    b"1000",
    b"-1000",
    b"1001",
)
SPACES = (b" ", b"  ", b"\t", b"")
ENDS = (b"\n", b"\r\n", b"\n\n", b" \n", b"\0\n", b"")


def is_a_line(data: bytes) -> bool:
    """The grammar as a pattern, where the model compares with the one line that says the same."""
    return len(data) <= 64 and bool(re.fullmatch(rb"EVENT (0|[1-9]\d*) (0|-?([1-9]\d{0,2}|1000))\n", data))


def test_a_line_is_what_the_grammar_says() -> None:
    lines = set()
    for parts in itertools.product((b"EVENT", b"event", b" EVENT"), SPACES, NUMBERS, SPACES, NUMBERS, ENDS):
        data = b"".join(parts)
        event = stream.parse_line(data)
        assert (event is not None) == is_a_line(data), data
        if event is not None:
            assert event_line(*event) == data
            lines.add(event)
    assert lines == set(itertools.product((0, 1, 7, 10, 999, 1000, 1001), (0, 1, 7, 10, -1, 999, 1000, -1000)))


@pytest.mark.parametrize("line", [b"EVENT 10 -7\n", b"EVENT 0 0\n", b"EVENT 3 -1000\n"])
def test_a_line_with_one_byte_changed_is_told_apart(line: bytes) -> None:
    for at, byte in itertools.product(range(len(line) + 1), range(256)):
        put, cut = bytes([byte]), line[:at] + line[at + 1 :]
        for data in (line[:at] + put + line[at + 1 :], line[:at] + put + line[at:], cut):
            assert (stream.parse_line(data) is not None) == is_a_line(data), data


def test_a_line_ends_at_64_bytes() -> None:
    longest = event_line(10**54, 0)
    assert len(longest) == 64
    assert stream.parse_line(longest) == (10**54, 0)
    assert stream.parse_line(event_line(10**55, 0)) is None
    assert stream.parse_line(event_line(10**54, 10)) is None


# --- replay -----------------------------------------------------------------------------------------------------------


def test_replay_gives_what_comes_after_the_cursor() -> None:
    for first, size, cursor, limit in itertools.product(range(4), range(1, 5), range(-1, 9), range(1, 6)):
        log = [(seq, seq % 3) for seq in range(first, first + size)]
        got = stream.replay(log, cursor, limit)
        due = [seq for seq in range(cursor + 1, cursor + 1 + limit) if seq < first + size]
        held = {seq for seq, _ in log}
        if cursor >= first + size or not held.issuperset(due or held) or (not due and cursor != log[-1][0]):
            assert got == RESYNC_REQUIRED
        else:
            assert got == [(seq, seq % 3) for seq in due]


# --- the properties can fail ------------------------------------------------------------------------------------------

APPLY = stream._apply


def miscounted(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    return (after, reply) if after is state else (after._replace(checkpoint=(Checkpoint(1, op.seq, 0),)), reply)


def gap_closed(state: State, op: Apply) -> stream.Step:
    last = stream.last_of(state)
    if op.seq != last + 2:
        return APPLY(state, op)
    total = state.checkpoint[0].total + op.delta
    return State((Checkpoint(1, last + 1, total),), (*state.ledger, Entry(op.seq, op.delta))), stream.TRUE


def stuck(state: State, op: Apply) -> stream.Step:
    return (state, GAP) if op.seq > 1 else APPLY(state, op)


def gap_jumped(state: State, op: Apply) -> stream.Step:
    if op.seq <= stream.last_of(state) + 1:
        return APPLY(state, op)
    return State((Checkpoint(1, op.seq, op.delta),), (*state.ledger, Entry(op.seq, op.delta))), stream.TRUE


def unsigned(state: State, op: Apply) -> stream.Step:
    return APPLY(state, Apply(op.seq, abs(op.delta)))


def conflict_overlooked(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    return after, (stream.FALSE if reply == CONFLICT else reply)


def half_kept(state: State, op: Crash[events.Plain]) -> stream.Step:
    return stream.step(state, op.op)[0], PLANTED


BROKEN: dict[str, tuple[str, Callable[..., stream.Step], str]] = {
    "the total is not kept": ("_apply", miscounted, "the total is the sum of the ledger"),
    "a gap is closed up": ("_apply", gap_closed, "the ledger holds each event up to the last, and no other"),
    "an event is never taken": ("_apply", stuck, "eventually: the next event is processed, whoever died"),
    "a gap is jumped": ("_apply", gap_jumped, "the cursor never moves back, nor by more than one"),
    "the sign is lost": ("_apply", unsigned, "only the next event changes the store"),
    "a conflict is taken for a duplicate": (
        "_apply",
        conflict_overlooked,
        "True, False and an ACK are for what is in the ledger",
    ),
    "a half-made change is kept": ("_crash", half_kept, "an error changes nothing"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_store_breaks_its_property(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, broken_one, name = BROKEN[fault]
    monkeypatch.setattr(stream, function, broken_one)
    with pytest.raises(Broken) as broken:
        explore(SCOPES["stream"], INVARIANTS, LAWS)
    assert broken.value.name == name


def test_every_property_of_the_store_has_been_broken() -> None:
    assert {name for *_, name in BROKEN.values()} == {each.name for each in INVARIANTS} | {law.name for law in LAWS}


def test_every_hook_is_met_in_the_world() -> None:
    world = explore(SCOPES["brief"])
    met = {
        (hook.name, hook.op)
        for state in world.states
        for op in world.scope.ops(state)
        if isinstance(op, Crash)
        for hook in stream.hooks_reached(state, op)
    }
    assert met >= {(hook.name, Apply) for hook in FAULT_HOOKS}
