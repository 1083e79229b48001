"""What is right: both ends of every range, every identifier, every default, every name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from model.contract import BOUNDS, Claim, Enqueue, Finish, Job, Plain, Redrive, RunOnce, Ticket
from stateful_tests.clauses import LEASED, STATUSES, Fixture, Program, T, follow
from stateful_tests.forms import ALPHABET
from stateful_tests.guard import QueueGuard

pytestmark = pytest.mark.layer("contract")

RIGHT: Final[dict[str, tuple[Program, Plain | RunOnce]]] = {
    "enqueue": ((), Enqueue("n", 5, 0, 50_000, 3)),
    "claim": (STATUSES["pending"], Claim("w", 0, 100)),
    "finish": (LEASED, Finish(T, "retry", 50, 5)),
    "redrive": (STATUSES["dead"], Redrive("a", 50, 100, "n")),
    "run_once": (STATUSES["pending"], RunOnce("w", 0, 0)),
}
BOUNDED = [
    pytest.param(function, name, id=f"{function} {name}")
    for function, (_, op) in RIGHT.items()
    for name in op.__slots__
    if name in BOUNDS
]


@pytest.mark.parametrize(("function", "name"), BOUNDED)
def test_both_ends_of_a_range_are_right(lockstep: Fixture, function: str, name: str) -> None:
    program, op = RIGHT[function]
    for value in BOUNDS[name]:
        pair = lockstep()
        follow(pair, program)
        changes: dict[str, Any] = {name: value}
        pair.do(replace(op, **changes))


@pytest.mark.parametrize("name", [name for name in Ticket.__slots__ if name in BOUNDS])
def test_both_ends_in_a_ticket_are_right(lockstep: Fixture, name: str) -> None:
    for value in BOUNDS[name]:
        pair = lockstep()
        follow(pair, LEASED)
        changes: dict[str, Any] = {name: value}
        pair.do(Finish(replace(T, **changes), "ok", 0))


def test_both_ends_of_the_clock_are_right(lockstep: Fixture) -> None:
    for first_ms, second_ms in ((0, 0), (0, BOUNDS["now_ms"].high), (BOUNDS["now_ms"].high, BOUNDS["now_ms"].high)):
        pair = lockstep()
        pair.do(Enqueue("a", 5, first_ms, 60_000))
        pair.do(RunOnce("w", first_ms, second_ms))


NAMES_IN_SQL = (*Job._fields, "rowid", "oid", "_rowid_", "null", "NULL", "excluded", "1e3", "01", "inf")
"""To SQL a name in the wrong quotes is a column, and a text that looks like a number may become one."""


def test_every_identifier_is_right_everywhere(lockstep: Fixture) -> None:
    pair = lockstep()
    for name in ("a", "Z", "0", "_", "-", ALPHABET, ALPHABET[::-1], "-" * 64, *NAMES_IN_SQL):
        if name not in ALPHABET:
            pair.do(Redrive(name, 0, 10, name))
        pair.do(Enqueue(name, 5, 0, 50_000))
        pair.do(Claim(name, 0, 100))
        pair.do(Finish(Ticket(name, 5, name, 1, 1, 100), "permanent", 0))
        pair.do(Redrive(name, 0, 10, name))
        pair.do(Claim(name, 10))


# --- signatures -------------------------------------------------------------------------------------------------------


def test_what_is_left_out_has_its_default(queue: QueueGuard) -> None:
    queue.call("enqueue", queue.con, {"id": "a", "qty": 5}, 0, 50_000)
    queue.expect(queue.rows().jobs[0].max_attempts == 3, f"{queue.lines[-1]} must allow 3 attempts")
    ticket = queue.call("claim", queue.con, "w", 0)
    queue.expect(queue.rows().jobs[0].lease_until == 1000, f"{queue.lines[-1]} must lease for 1000 ms")
    queue.call("finish", queue.con, ticket, "retry", 5)
    queue.expect(queue.rows().jobs[0].available_at == 5, f"{queue.lines[-1]} must not delay")
    queue.attempt("run_once", queue.con, "w", lambda: 5, lambda _: 0, 0.5)
    queue.expect(queue.rows().jobs[0].lease_until == 1005, f"{queue.lines[-1]} must lease for 1000 ms")
    queue.attempt("run_file", queue.path, "w", lambda: 1005, lambda _: 0, 0.5)
    queue.expect(queue.rows().jobs[0].lease_until == 2005, f"{queue.lines[-1]} must lease for 1000 ms")


def test_every_argument_has_its_name(queue: QueueGuard) -> None:
    con = queue.con
    queue.call("enqueue", con=con, event={"id": "a", "qty": 5}, now_ms=0, ttl_ms=50_000, max_attempts=3)
    ticket = queue.call("claim", con=con, owner="w", now_ms=0, lease_ms=100, fault=None)
    queue.call("finish", con=con, ticket=ticket, outcome="permanent", now_ms=0, delay_ms=0, fault=None)
    queue.call("redrive", con=con, job_id="a", now_ms=0, ttl_ms=50_000, note="n", fault=None)
    run: dict[str, Any] = {"owner": "w", "clock": lambda: 0, "send": lambda _: True, "jitter": 0.5, "lease_ms": 10}
    queue.call("run_once", con=con, **run)
    queue.call("run_file", path=queue.path, **run)
    queue.call("retry_delay", attempt=1, base_ms=1, cap_ms=1, jitter=1)
    queue.call("open_queue", path=queue.path).close()
