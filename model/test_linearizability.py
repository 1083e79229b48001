"""Histories of known verdict, and a comparison with a search that tries every order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import lease
from model.contract import (
    LOCKED,
    PLANTED,
    REFUSED,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Odd,
    Op,
    Raise,
    Ran,
    Redrive,
    Reply,
    Return,
    State,
    Ticket,
)
from model.history import Call, Made, Mix, decode, encode, gone_line, invoke_line, lines, made, read, return_line
from model.linearizability import QUEUE, Spec, check

One = Call[Op, Reply]
YES, NO, NONE, DONE = Return(value=True), Return(value=False), Return(None), Return("done")

ADD = Enqueue("a", 1, 0, 100)
T1 = Ticket("a", 1, "v", 1, 1, 10)
T2 = Ticket("a", 1, "w", 2, 2, 20)
W1 = Ticket("a", 1, "w", 1, 1, 10)
ADDED: One = Call("p", ADD, 0, 1, YES)
V = Claim("v", 0, 10)
W = Claim("w", 0, 10)
LATE = Claim("w", 10, 10)
OK = Finish(T1, "ok", 5)
BURY = Finish(T1, "permanent", 5)
REVIVE = Redrive("a", 6, 100, "why")


def chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - no secret


def crowd(seed: int, ops: int, mix: Mix | None = None) -> Made:
    return made(chance(seed), ops, mix)


def in_turn(*steps: tuple[Op, Reply | None]) -> tuple[One, ...]:
    """One call after another; one without a reply never returns."""
    return tuple(
        Call(f"p{at}", op, 10 * at, None if reply is None else 10 * at + 5, reply)
        for at, (op, reply) in enumerate(steps, 1)
    )


GOOD: dict[str, tuple[One, ...]] = {
    "nothing": (),
    "sequential": in_turn((ADD, YES), (V, Return(T1)), (OK, DONE), (LATE, NONE)),
    "overlapping": (ADDED, Call("v", V, 2, 9, Return(T1)), Call("w", W, 3, 4, NONE), Call("x", OK, 5, 8, DONE)),
    "overlapping, seen before it returns": (Call("p", ADD, 0, 9, YES), Call("v", V, 1, 2, Return(T1))),
    "ends that touch overlap": (ADDED, Call("v", V, 2, 3, Return(T1)), Call("w", W, 1, 2, NONE)),
    "killed claim kept": in_turn((ADD, YES), (V, None), (W, NONE), (LATE, Return(T2))),
    "killed claim lost": in_turn((ADD, YES), (V, None), (W, Return(W1))),
    "killed claim happens late": in_turn((ADD, YES), (V, None), (W, Return(W1)), (Finish(W1, "ok", 5), DONE)),
    "killed finish kept": in_turn((ADD, YES), (V, Return(T1)), (OK, None), (LATE, NONE)),
    "killed finish lost": in_turn((ADD, YES), (V, Return(T1)), (OK, None), (LATE, Return(T2))),
    "killed enqueue explains a ticket": in_turn((ADD, None), (V, Return(T1))),
    "killed in a known hook": in_turn((ADD, YES), (Crash(V, "after-commit", "SIGKILL"), PLANTED), (W, NONE)),
    "locked out": in_turn((ADD, YES), (V, LOCKED), (W, Return(W1)), (ADD, LOCKED)),
    "redriven": in_turn(
        (ADD, YES), (V, Return(T1)), (BURY, Return("dead")), (REVIVE, YES), (LATE, Return(replace(T2, attempt=1)))
    ),
}

BAD: dict[str, tuple[int, tuple[One, ...]]] = {
    "double claim": (
        3,
        (ADDED, Call("v", V, 2, 5, Return(T1)), Call("w", W, 3, 6, Return(W1)), Call("x", OK, 7, 8, DONE)),
    ),
    "lost update": (4, in_turn((ADD, YES), (V, Return(T1)), (OK, DONE), (LATE, Return(T2)), (LATE, NONE))),
    "done job redriven": (4, in_turn((ADD, YES), (V, Return(T1)), (OK, DONE), (REVIVE, YES), (ADD, NO))),
    "stale finish accepted": (4, in_turn((ADD, YES), (V, Return(T1)), (LATE, Return(T2)), (OK, DONE), (ADD, NO))),
    "token reused after redrive": (
        5,
        in_turn(
            (ADD, YES),
            (V, Return(T1)),
            (BURY, Return("dead")),
            (REVIVE, YES),
            (LATE, Return(Ticket("a", 1, "w", 1, 1, 20))),
            (ADD, NO),
        ),
    ),
    "killed claim kept, then lost": (
        3,
        in_turn((ADD, YES), (V, None), (W, NONE), (W, Return(W1)), (ADD, NO)),
    ),
    "killed finish kept, then lost": (
        4,
        in_turn((ADD, YES), (V, Return(T1)), (OK, None), (LATE, NONE), (LATE, Return(T2)), (LATE, Return(T2))),
    ),
    "killed claim handed out to another": (
        4,
        in_turn((ADD, YES), (V, None), (OK, DONE), (ADD, NO), (LATE, Return(T2))),
    ),
    "locked and yet changed": (3, in_turn((ADD, YES), (V, LOCKED), (LATE, Return(T2)), (ADD, NO))),
    "enqueue locked and yet changed": (2, in_turn((ADD, LOCKED), (V, Return(T1)), (ADD, NO))),
    "seen before its invoke": (1, in_turn((V, Return(T1)), (ADD, YES), (ADD, NO))),
    "not seen after its return": (2, in_turn((ADD, YES), (V, NONE), (W, Return(W1)))),
    "info before its invoke": (1, in_turn((V, Return(T1)), (ADD, None), (ADD, NO))),
    "killed, and acts after its death": (
        2,
        (Call("v", V, 0, 1), Call("p", ADD, 2, 3, YES), Call("w", W, 4, 5, NONE), Call("x", W, 6, 7, NONE)),
    ),
    "killed in a hook before COMMIT and yet kept": (
        3,
        in_turn((ADD, YES), (Crash(V, "after-claim", "SIGKILL"), PLANTED), (W, NONE), (ADD, NO)),
    ),
    "odd reply": (2, in_turn((ADD, YES), (V, Return(Odd("0"))), (ADD, NO))),
}
"""How many returns it takes until there is no order, and the history."""


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_has_an_order(name: str) -> None:
    history = GOOD[name]
    found = check(history, QUEUE)
    assert found.verdict == "valid"
    assert explains(found.order, history)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_has_a_shortest_prefix(name: str) -> None:
    length, history = BAD[name]
    found = check(history, QUEUE)
    assert found.verdict == "invalid"
    assert sum(call.reply is not None for call in found.prefix) == length
    assert f"the first {length} returns" in found.message


def explains(order: Sequence[One], history: Sequence[One], final: State | None = None) -> bool:
    """The law itself, without any search."""
    state = lease.EMPTY
    for place, call in enumerate(order):
        state, reply = lease.step(state, call.op)
        if call.reply is not None and reply != call.reply:
            return False
        if any(later.returned is not None and later.returned < call.invoked for later in order[place:]):
            return False
    left = [call for call in history if call not in order]
    return all(call.reply in {None, LOCKED} for call in left) and final in {None, state}


# --- the final state --------------------------------------------------------------------------------------------------

KILLED = in_turn((ADD, YES), (V, Return(T1)), (OK, None))


def rows(*ops: Op) -> State:
    state = lease.EMPTY
    for op in ops:
        state, _ = lease.step(state, op)
    return state


@pytest.mark.parametrize("ops", [(ADD, V, OK), (ADD, V)], ids=["kept", "lost"])
def test_a_killed_finish_may_end_either_way(ops: tuple[Op, ...]) -> None:
    found = check(KILLED, QUEUE, rows(*ops))
    assert found.verdict == "valid"
    assert explains(found.order, KILLED, rows(*ops))


@pytest.mark.parametrize("ops", [(ADD,), (ADD, V, BURY), (), (ADD, V, LATE)])
def test_rows_that_no_order_leaves_are_refused(ops: tuple[Op, ...]) -> None:
    found = check(KILLED, QUEUE, rows(*ops))
    assert found.verdict == "invalid"
    assert found.message.startswith("invalid: no order ends in the final state; after one of them: jobs")
    assert found.prefix == KILLED


def test_a_lost_update_shows_in_the_rows_alone() -> None:
    history = in_turn((ADD, YES), (V, Return(T1)), (OK, DONE))
    assert check(history, QUEUE).verdict == "valid"
    assert check(history, QUEUE, rows(ADD, V, OK)).verdict == "valid"
    assert check(history, QUEUE, rows(ADD, V)).verdict == "invalid"


def test_a_bad_prefix_comes_before_bad_rows() -> None:
    length, history = BAD["double claim"]
    assert f"first {length} returns" in check(history, QUEUE, rows(ADD, V)).message


# --- the answer -------------------------------------------------------------------------------------------------------


def test_a_failure_reads_line_by_line() -> None:
    text = str(check(BAD["double claim"][1], QUEUE)).splitlines()
    assert text[0].startswith("invalid: no order explains the first 3 returns: w [3..6] Claim(owner='w', now_ms=0")
    assert text[0].endswith("the model, after the longest order: Return(value=None)")
    assert [line.split()[0] for line in text[1:]] == ["the", "p", "v", "without", "w"]


def test_a_spent_budget_is_no_verdict() -> None:
    history, _ = crowd(1, 100)
    found = check(history, QUEUE, budget=50)
    assert (found.verdict, found.steps) == ("unknown", 50)
    assert str(found).startswith("unknown: no answer after 50 steps")


def test_the_step_may_be_any() -> None:
    register: Spec[int, int, int] = Spec(0, lambda state, by: (state + by, state))
    calls = (Call("p", 1, 0, 9, 0), Call("q", 2, 1, 2, 1))
    assert check(calls, register).verdict == "valid"
    assert check(calls, register, 3).verdict == "valid"
    assert check(calls, register, 2).verdict == "invalid"
    assert check((calls[0], Call("q", 2, 1, 2, 3)), register).verdict == "invalid"


def test_what_was_spent_in_vain_is_given_back() -> None:
    register: Spec[int, int | None, int] = Spec(0, lambda old, new: (old, old) if new is None else (new, -1))
    history: tuple[Call[int | None, int], ...] = (
        Call("p", 1, 0),
        Call("q", 2, 1),
        Call("r", None, 2, 3, 1),
        Call("r", 0, 4, 5, -1),
        Call("r", None, 6, 7, 2),
    )
    assert check(history, register).verdict == "valid"


@pytest.mark.parametrize("ends", [(None, YES), (0, YES)])
def test_a_call_without_two_ends_in_order_is_refused(ends: tuple[int | None, Reply]) -> None:
    with pytest.raises(ValueError, match="return"):
        Call("p", ADD, 1, *ends)


# --- against every order ----------------------------------------------------------------------------------------------

SMALL = Mix(processes=3, jobs=2, killed=0.3, reaped=0.5, locked=0.1, redriven=0.2, lease_ms=5, ttl_ms=40)


def by_force(history: Sequence[One], final: State | None) -> bool:
    """Every order of every choice of info calls."""
    must = [call for call in history if call.reply not in {None, LOCKED}]
    info = [call for call in history if call.reply is None]
    return any(
        explains(order, history, final)
        for count in range(len(info) + 1)
        for some in combinations(info, count)
        for order in permutations([*must, *some])
    )


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans())
def test_what_a_queue_really_did_is_accepted(seed: int, ops: int, knows: bool) -> None:  # noqa: FBT001 - drawn
    history, final = crowd(seed, ops, SMALL)
    end = final if knows else None
    found = check(history, QUEUE, end)
    assert found.verdict == "valid"
    assert explains(found.order, history, end)


def falsified(history: tuple[One, ...], random: Random) -> tuple[One, ...]:
    """Another call's reply, or one made up, in place of one reply; or nothing known in place of it."""
    place = random.randrange(len(history))
    call = history[place]
    if call.returned is None:
        return history
    others = [one.reply for one in history if one.reply not in {None, call.reply}]
    reply = random.choice([*others, YES, NO, NONE, DONE, LOCKED, REFUSED])
    return (*history[:place], replace(call, reply=reply), *history[place + 1 :])


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 2), st.booleans())
def test_every_verdict_is_that_of_brute_force(seed: int, ops: int, changes: int, knows: bool) -> None:  # noqa: FBT001
    history, final = crowd(seed, ops, SMALL)
    random = chance(seed)
    for _ in range(changes):
        history = falsified(history, random)
    end = final if knows else None
    assert (check(history, QUEUE, end).verdict == "valid") == by_force(history, end)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_crowded_history_is_judged_within_its_budget(seed: int) -> None:
    history, final = crowd(seed, 2000)
    found = check(history, QUEUE, final)
    assert found.verdict == "valid"
    assert explains_fast(found.order)


def explains_fast(order: Sequence[One]) -> bool:
    state = lease.EMPTY
    for call in order:
        state, reply = lease.step(state, call.op)
        if call.reply not in {None, reply}:
            return False
    return True


# --- JSON lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        YES,
        NO,
        NONE,
        DONE,
        LOCKED,
        PLANTED,
        Return(T1),
        Return(Ran("a", 1, "stale")),
        Return(Odd("{}")),
        Raise("Conflict"),
    ],
)
def test_a_reply_survives_its_json(reply: Reply) -> None:
    assert decode(json.loads(json.dumps(encode(reply)))) == reply


@pytest.mark.parametrize("data", [None, 1, {}, {"returns": 1}, {"returns": {"id": "a"}}, {"raises": None}])
def test_no_other_json_is_a_reply(data: object) -> None:
    with pytest.raises(ValueError, match="not a reply"):
        decode(data)


def test_a_history_survives_its_lines() -> None:
    history = tuple(sorted(crowd(1, 200).history, key=lambda call: call.invoked))
    assert read("".join(lines(history))) == history
    whole = list(lines(history))
    parts = [[line for line in whole if f"p{seat}" in line] for seat in range(8)]
    assert sorted(map(str, read(*("".join(part) for part in parts)))) == sorted(map(str, history))


def test_a_torn_last_line_is_left_out() -> None:
    text = invoke_line("p", ADD, 1) + return_line("p", YES, 2) + invoke_line("p", V, 3)
    assert read(text[:-9]) == (Call("p", ADD, 1, 2, YES),)
    assert read(text + return_line("p", NONE, 4)[:-5])[1] == Call("p", V, 3)


def test_a_death_ends_what_was_open() -> None:
    assert read(invoke_line("p", ADD, 1), gone_line("p", 5) + gone_line("q", 6)) == (Call("p", ADD, 1, 5),)


@pytest.mark.parametrize("text", ["x\n{}", "[]\n", return_line("p", YES, 1)])
def test_lines_that_nobody_wrote_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|without an invoke"):
        read(text)
