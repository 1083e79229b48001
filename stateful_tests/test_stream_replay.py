"""replay: the events after a cursor, or the plain word that the log no longer has them."""

from __future__ import annotations

import random
from collections import Counter
from copy import copy
from typing import Any, NoReturn

import pytest

from model import stream
from model.contract import Raise
from model.counterexample import Violation
from model.events import BOUNDS
from model.port import one_line
from model.store import Client
from stateful_tests.stream_forms import BAD_LOGS, LOG, Log, log_from, with_number, wrong_numbers

pytestmark = pytest.mark.layer("contract")

LIMITS = BOUNDS["limit"]
TEN: Log = [(10, 7), (11, -3), (12, 0), (13, 1000), (14, -1000)]

# Cursor, limit, and what must come: events, or None where a resynchronisation is required.
CLAUSES: dict[str, tuple[Log, int, int, Log | None]] = {
    "the cursor before the log reads from its start": (TEN, 9, 16, TEN),
    "one event earlier is gone": (TEN, 8, 16, None),
    "a new receiver needs event 0": (TEN, -1, 16, None),
    "event 0 of a log that has lost it is gone": ([(1, 5)], -1, 1, None),
    "a new receiver reads from event 0": ([(0, 7), (1, 8)], -1, 16, [(0, 7), (1, 8)]),
    "the event at the cursor is not repeated": (TEN, 10, 16, TEN[1:]),
    "a cursor in the middle": (TEN, 12, 16, TEN[3:]),
    "one event is left": (TEN, 13, 16, [(14, -1000)]),
    "nothing is left": (TEN, 14, 16, []),
    "nothing is left, whatever the limit": (TEN, 14, 1, []),
    "a cursor beyond the log": (TEN, 15, 16, None),
    "a cursor far beyond the log": (TEN, 10**50, 16, None),
    "a limit of 1": (TEN, 9, 1, [(10, 7)]),
    "a limit takes the oldest": (TEN, 10, 2, [(11, -3), (12, 0)]),
    "a limit beyond the end": (TEN, 12, 3, [(13, 1000), (14, -1000)]),
    "a limit up to the end": (TEN, 12, 2, [(13, 1000), (14, -1000)]),
    "a log of one, not yet seen": ([(0, 0)], -1, 1, [(0, 0)]),
    "a log of one, seen": ([(0, 0)], 0, 1, []),
    "a log of one, not yet made": ([(0, 0)], 1, 1, None),
    "sixteen of a hundred": (log_from(0, 100), 49, 16, log_from(0, 100)[50:66]),
    "a log of 128": (log_from(0, 128), 111, 16, log_from(0, 128)[112:]),
}


def must_replay(client: Client, log: Log, cursor: int, limit: int) -> None:
    """What the model says, in whatever sequence the events come."""
    given = list(log)
    want = stream.replay(log, cursor, limit)
    result, error = attempt(client, log, cursor, limit)
    if log != given:
        _fail(given, cursor, limit, "modifies its log")
    if not isinstance(want, list):
        must = want.error if isinstance(want, Raise) else ""
        if not isinstance(error, getattr(client, must)):
            _fail(given, cursor, limit, f"{_does(result, error)}, must raise {must}")
    elif error or not isinstance(result, list | tuple) or [*result] != want or not all(map(_is_event, result)):
        _fail(given, cursor, limit, f"{_does(result, error)}, must return {want}")


def _is_event(event: object) -> bool:
    """A tuple of exact ints: 1 is not True."""
    return isinstance(event, tuple) and all(type(number) is int for number in event)


def attempt(client: Client, *args: Any) -> tuple[Any, BaseException | None]:  # noqa: ANN401 - wrong ones too
    try:
        return client.replay(*args), None
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - every error is judged
        return None, error


def must_refuse(client: Client, did: Counter[str], log: object, cursor: object, limit: object) -> None:
    """ValueError, and the log as it was."""
    given = copy(log)
    result, error = attempt(client, log, cursor, limit)
    if not isinstance(error, ValueError):
        _fail(given, cursor, limit, f"{_does(result, error)}, must raise ValueError")
    if isinstance(log, list | dict) and repr(log) != repr(given):
        _fail(given, cursor, limit, "modifies its log")
    did["refused values"] += 1


def _does(result: object, error: BaseException | None) -> str:
    return f"raises {one_line(error)}" if error else f"returns {result!r}"


def _fail(log: object, cursor: object, limit: object, difference: str) -> NoReturn:
    """A log longer than a line has a line of its own."""
    lines, name = [], repr(log)
    if len(name) > 60:
        lines, name = [f"log = {name}"], "log"
    call = f"client.replay({name}, {cursor!r}, {limit!r})"
    raise Violation(f"{call} {difference}", ["import client", *lines, call])


@pytest.mark.parametrize("clause", CLAUSES)
def test_replay(client: Client, clause: str) -> None:
    log, cursor, limit, events = CLAUSES[clause]
    must: object = "ResyncRequired" if events is None else events
    said = stream.replay(log, cursor, limit)
    if (said.error if isinstance(said, Raise) else said) != must:
        raise RuntimeError(f"the model says {said}, the clause {must}")
    must_replay(client, log, cursor, limit)


def test_a_log_that_moves_on_is_read_anew(client: Client, did: Counter[str]) -> None:
    """It is the publisher's own list, which loses its oldest events and gets new ones."""
    log = log_from(0, 2)
    for seq in range(2, 40):
        must_replay(client, log, log[0][0] - 1, LIMITS.high)
        must_replay(client, log, log[-1][0], LIMITS.high)
        log.append((seq, seq % 9))
        if seq % 3:
            del log[0]
        did["replays"] += 2
    log[1] = (log[1][0] + 1, 0)
    must_refuse(client, did, log, log[-1][0], LIMITS.high)


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 127, 128])
@pytest.mark.parametrize("first", [0, 1, 10, 2**63 - 2, 10**50], ids=["0", "1", "10", "2**63 - 2", "10**50"])
def test_every_cursor_around_the_log(client: Client, first: int, length: int, did: Counter[str]) -> None:
    log, last = log_from(first, length), first + length - 1
    near = {*range(first - 3, first + 3), *range(last - 17, last + 4), last - LIMITS.high, last + 2**64, -1, 0}
    for cursor in sorted(cursor for cursor in near if cursor >= -1):
        for limit in (LIMITS.low, LIMITS.high):
            must_replay(client, log, cursor, limit)
            did["replays"] += 1


def test_replays_by_chance(client: Client, seed: int, did: Counter[str]) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seeded choice
    for _ in range(200):
        first, length = chance.choice((0, chance.randrange(1000))), chance.randint(*BOUNDS["log"])
        log = [(first + place, chance.randint(*BOUNDS["delta"])) for place in range(length)]
        must_replay(client, log, chance.randint(max(-1, first - 3), first + length + 2), chance.randint(*LIMITS))
        did["replays"] += 1


# --- wrong values -----------------------------------------------------------------------------------------------------


CURSORS = {"129 events from 0": (-1, 100), "events from -1": (-1, 0), "a descending log": (10,)}
"""Where 9 and 15 would call for a resynchronisation, too."""


@pytest.mark.parametrize("case", BAD_LOGS)
def test_what_is_no_log_is_refused(client: Client, case: str, did: Counter[str]) -> None:
    for cursor in CURSORS.get(case, (9, 15)):
        for limit in LIMITS:
            must_refuse(client, did, BAD_LOGS[case], cursor, limit)


@pytest.mark.parametrize("place", [0, 9, 19], ids=["first", "middle", "last"])
@pytest.mark.parametrize("name", ["seq", "delta"])
def test_a_wrong_number_in_a_log_is_refused(client: Client, name: str, place: int, did: Counter[str]) -> None:
    field = ("seq", "delta").index(name)
    for value in wrong_numbers(name, LOG[place][field]):
        must_refuse(client, did, with_number(place, field, value), 9, 16)


@pytest.mark.parametrize("number", [False, True], ids=str)
def test_a_bool_is_no_seq_of_a_log(client: Client, number: bool, did: Counter[str]) -> None:  # noqa: FBT001 - the value
    must_refuse(client, did, [(number, 7), (number + 1, 7)], number - 1, 1)
    must_refuse(client, did, [(0, 7), (1, number)], -1, 1)


@pytest.mark.parametrize("right", [9, 15, 29], ids="cursor {}".format)
def test_a_wrong_cursor_is_refused(client: Client, right: int, did: Counter[str]) -> None:
    for log in (LOG, log_from(0, 3)):
        for cursor in wrong_numbers("cursor", right):
            must_refuse(client, did, log, cursor, 16)


@pytest.mark.parametrize("cursor", [9, 15, 29], ids="cursor {}".format)
@pytest.mark.parametrize("right", [*LIMITS], ids="limit {}".format)
def test_a_wrong_limit_is_refused(client: Client, right: int, cursor: int, did: Counter[str]) -> None:
    for limit in wrong_numbers("limit", right):
        must_refuse(client, did, LOG, cursor, limit)
