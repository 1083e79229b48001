"""A value of the wrong form is a ValueError before any SQL is executed; the ends of each range are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from model.contract import Claim, Enqueue, Finish, State, Ticket
from model.queue import ticket_dict
from stateful_tests.clauses import T
from stateful_tests.forms import WRONG_JITTERS, WRONG_PATHS, fingerprint, wrong_ints, wrong_values
from stateful_tests.guard import QueueGuard, planted_error

pytestmark = pytest.mark.layer("contract")

Arguments = dict[str, Any]

EVENT = {"id": "new", "qty": 5}
TICKET = ticket_dict(T)

# In each situation every argument is right; one that is made wrong must be refused whatever the queue holds.
SITUATIONS: dict[str, list[Arguments]] = {
    "enqueue": [
        {"event": EVENT, "now_ms": 1, "ttl_ms": 100, "max_attempts": 3},
        {"event": {"id": "a", "qty": 5}, "now_ms": 1, "ttl_ms": 100, "max_attempts": 3},
        {"event": {"id": "a", "qty": 6}, "now_ms": 1, "ttl_ms": 100, "max_attempts": 3},
    ],
    "claim": [
        {"owner": "w", "now_ms": 50, "lease_ms": 100},
        {"owner": "w", "now_ms": 0, "lease_ms": 100},
    ],
    "finish": [
        {"ticket": TICKET, "outcome": "ok", "now_ms": 50, "delay_ms": 0},
        {"ticket": TICKET, "outcome": "retry", "now_ms": 50, "delay_ms": 5},
        {"ticket": TICKET, "outcome": "permanent", "now_ms": 100, "delay_ms": 0},
        {"ticket": {**TICKET, "id": "missing"}, "outcome": "ok", "now_ms": 50, "delay_ms": 0},
    ],
    "redrive": [
        {"job_id": "buried", "now_ms": 50, "ttl_ms": 100, "note": "n"},
        {"job_id": "missing", "now_ms": 50, "ttl_ms": 100, "note": "n"},
        {"job_id": "a", "now_ms": 50, "ttl_ms": 100, "note": "n"},
    ],
    "retry_delay": [
        {"attempt": 1, "base_ms": 1, "cap_ms": 60_000, "jitter": 1.0},
        {"attempt": 16, "base_ms": 60_000, "cap_ms": 60_000, "jitter": 0},
    ],
}


def places() -> Iterator[Any]:
    """Every argument of every function, and every field of those that are dicts."""
    for function, situations in SITUATIONS.items():
        for place, right in situations[0].items():
            fields = [f"{place}.{field}" for field in right] if isinstance(right, dict) else []
            for name in (place, *fields):
                yield pytest.param(function, name, id=f"{function} {name}")


def stock(queue: QueueGuard) -> State:
    """A leased job, a dead one, and one that is due."""
    for op in (
        Enqueue("buried", 5, 0, 50),
        Claim("w", 0, 10),
        Finish(Ticket("buried", 5, "w", 1, 1, 10), "permanent", 0),
        Enqueue("a", 5, 0, 50_000),
        Claim("w", 0, 100),
        Enqueue("due", 5, 10, 50_000),
    ):
        queue.do(op)
    return queue.rows()


def with_value(arguments: Arguments, place: str, value: object) -> Arguments:
    """The arguments anew, with another value in one place."""
    name, _, field = place.partition(".")
    copy = {key: dict(right) if isinstance(right, dict) else right for key, right in arguments.items()}
    if field:
        copy[name][field] = value
    else:
        copy[name] = value
    return copy


def must_refuse(queue: QueueGuard, function: str, arguments: Arguments) -> None:
    """ValueError, no SQL, the arguments as they were."""
    statements: list[str] = []
    before = fingerprint(arguments)
    queue.con.set_trace_callback(statements.append)
    lent = () if function == "retry_delay" else (queue.con,)
    queue.refused(ValueError, function, *lent, *arguments.values())
    queue.con.set_trace_callback(None)
    queue.expect(not statements, f"{queue.lines[-1]} executes SQL before it refuses: {statements[:1]}")
    queue.expect(fingerprint(arguments) == before, f"{queue.lines[-1]} modifies its arguments")
    queue.expect(not queue.con.in_transaction, f"{queue.lines[-1]} leaves a transaction open")
    queue.did["refused values"] += 1


@pytest.mark.parametrize(("function", "place"), list(places()))
def test_a_wrong_value_is_refused(queue: QueueGuard, function: str, place: str) -> None:
    before, program = stock(queue), list(queue.lines)
    for situation in SITUATIONS[function]:
        name, _, field = place.partition(".")
        right = situation[name][field] if field else situation[name]
        for value in wrong_values(place, right):
            queue.lines[:] = program
            must_refuse(queue, function, with_value(situation, place, value))
            queue.unchanged(before)


def test_a_cap_below_the_base_is_refused(queue: QueueGuard) -> None:
    for base_ms, cap_ms in ((2, 1), (101, 100), (60_000, 59_999), (60_000, 1)):
        queue.refused(ValueError, "retry_delay", 1, base_ms, cap_ms, 0.5)
        queue.did["refused values"] += 1


def test_what_was_right_before_does_not_make_it_right(queue: QueueGuard) -> None:
    """1 equals True and 1.0, and has their hash: what remembers a call by its arguments takes one for the other."""
    for place, right in (("attempt", 1), ("base_ms", 1), ("cap_ms", 1), ("jitter", 1)):
        arguments: Arguments = {"attempt": 1, "base_ms": 1, "cap_ms": 1, "jitter": 1}
        for value in (True, 1.0)[: 1 + (place != "jitter")]:
            queue.call("retry_delay", *arguments.values())
            queue.refused(ValueError, "retry_delay", *{**arguments, place: type(value)(right)}.values())
            queue.did["refused values"] += 1


def test_keys_may_come_in_any_order(queue: QueueGuard) -> None:
    got = queue.call("enqueue", queue.con, {"qty": 5, "id": "a"}, 0, 50_000)
    queue.expect(got is True, f"{queue.lines[-1]} returns {got!r}, must return True")
    ticket = queue.call("claim", queue.con, "w", 0, 100)
    got = queue.call("finish", queue.con, dict(sorted(ticket.items())), "ok", 1)
    queue.expect(got == "done", f"{queue.lines[-1]} returns {got!r}, must return 'done'")


def test_right_arguments_are_never_modified(queue: QueueGuard) -> None:
    stock(queue)
    for function, situations in SITUATIONS.items():
        for situation in situations:
            arguments = with_value(situation, *list(situation.items())[-1])
            before = fingerprint(arguments)
            queue.attempt(function, *(() if function == "retry_delay" else (queue.con,)), *arguments.values())
            queue.expect(fingerprint(arguments) == before, f"{queue.lines[-1]} modifies its arguments")


# --- run_once and run_file --------------------------------------------------------------------------------------------


def runs(
    queue: QueueGuard, function: str, place: str, value: object, readings: list[object], answer: str = "True"
) -> list[str]:
    """What a run with one wrong value calls before its ValueError; ``readings`` is what its clock says."""
    called: list[str] = []

    def clock() -> object:
        called.append("clock")
        return readings[called.count("clock") - 1]

    def send(_: object) -> bool:
        called.append("send")
        if answer != "True":
            raise planted_error(getattr(queue.worker, answer))
        return True

    right: Arguments = {"owner": "w", "clock": clock, "send": send, "jitter": 0.5, "lease_ms": 100}
    arguments = {**right, place: value} if place in right else right
    target = queue.con if function == "run_once" else queue.path
    queue.refused(ValueError, function, target, *arguments.values())
    queue.did["refused values"] += 1
    return called


def watched(queue: QueueGuard, run: Callable[[], list[str]]) -> tuple[list[str], list[str]]:
    """What the run calls, and the SQL that it executes on the lent connection."""
    statements: list[str] = []
    queue.con.set_trace_callback(statements.append)
    called = run()
    queue.con.set_trace_callback(None)
    return called, statements


RUN_PLACES = {"owner": "w", "lease_ms": 1000, "now_ms": 50}


@pytest.mark.parametrize("place", RUN_PLACES)
@pytest.mark.parametrize("function", ["run_once", "run_file"])
def test_a_run_refuses_a_wrong_value(queue: QueueGuard, function: str, place: str) -> None:
    before, program = stock(queue), list(queue.lines)
    for value in wrong_values(place, RUN_PLACES[place]):
        queue.lines[:] = program
        readings: list[object] = [value, 50] if place == "now_ms" else [50, 50]
        called, statements = watched(queue, partial(runs, queue, function, place, value, readings))
        queue.expect("send" not in called, f"{queue.lines[-1]} sends before it refuses {value!r}")
        queue.expect(not statements, f"{queue.lines[-1]} executes SQL before it refuses {value!r}: {statements[:1]}")
        queue.unchanged(before)


@pytest.mark.parametrize("function", ["run_once", "run_file"])
def test_a_run_refuses_its_jitter_first(queue: QueueGuard, function: str) -> None:
    before, program = stock(queue), list(queue.lines)
    for value in WRONG_JITTERS:
        queue.lines[:] = program
        called, statements = watched(queue, partial(runs, queue, function, "jitter", value, [50, 50]))
        queue.expect(not called, f"{queue.lines[-1]} calls {called[:1]} before it refuses its jitter")
        queue.expect(not statements, f"{queue.lines[-1]} executes SQL before it refuses: {statements[:1]}")
        queue.unchanged(before)


@pytest.mark.parametrize("answer", ["True", "Retryable", "Permanent"])
def test_a_wrong_second_clock_keeps_the_claim(queue: QueueGuard, answer: str) -> None:
    for value in wrong_ints("now_ms"):
        queue.lines[1:] = []
        job = queue.did["refused values"]
        queue.do(Enqueue(f"j{job}", 5, 0, 50_000))
        before = queue.rows()
        called = runs(queue, "run_once", "clock", iter((0, value)).__next__, [], answer)
        queue.expect(called == ["send"], f"{queue.lines[-1]} must send once before it refuses {value!r}")
        leased = before.jobs[-1]._replace(status="leased", attempts=1, token=1, owner="w", lease_until=100)
        queue.unchanged(before._replace(jobs=(*before.jobs[:-1], leased)))


# --- paths ------------------------------------------------------------------------------------------------------------


def test_what_names_no_file_is_refused(queue: QueueGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = queue.path.parent / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for path in WRONG_PATHS:
        queue.refused(ValueError, "open_queue", path)
        queue.expect(not any(folder.iterdir()), f"{queue.lines[-1]} creates a file")
        queue.did["refused values"] += 1


def test_a_path_object_is_no_way_to_memory(queue: QueueGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(queue.path.parent)

    class Named:
        def __fspath__(self) -> str:
            return ":memory:"

    for path in (Path(":memory:"), Named()):
        con, error = queue.attempt("open_queue", path)
        if error is None:
            con.close()
        # A file of that name is a local file, too.
        right = isinstance(error, ValueError) or Path(":memory:").is_file()
        queue.expect(right, f"{queue.lines[-1]} opens a queue in memory, must raise ValueError")
