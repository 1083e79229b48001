"""A lent connection comes back as it was, open and with every setting of the caller's."""

from __future__ import annotations

import sqlite3

import pytest

from model import lease
from model.contract import LOCKED, Enqueue
from model.port import impatient
from stateful_tests.clauses import EVERY_CALL
from stateful_tests.guard import QueueGuard
from stateful_tests.lent import compare, set_apart

pytestmark = pytest.mark.layer("contract")


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_call_leaves_every_setting(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before, lent = queue.prepare(program), set_apart(queue)
    queue.must(op, lease.step(before, op)[1])
    compare(queue, lent)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_locked_call_leaves_every_setting(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    must, lent = lease.step(before, op)[1], set_apart(queue)
    with impatient(queue.con):
        queue.other.execute("BEGIN IMMEDIATE").close()
        queue.must(op, LOCKED, must)
        queue.other.execute("ROLLBACK").close()
    compare(queue, lent)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_rows_of_another_class_say_the_same(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    after, must = lease.step(queue.prepare(program), op)
    queue.con.row_factory = sqlite3.Row
    queue.lines.append("con1.row_factory = sqlite3.Row")
    queue.must(op, must)
    queue.unchanged(after)


WRONG: dict[str, tuple[object, ...]] = {
    "enqueue": ({"id": "a", "qty": 0}, 0, 100),
    "claim": ("w", -1),
    "finish": ({}, "ok", 0),
    "redrive": ("a", 0, 0, "n"),
    "run_once": ("w", lambda: 0, lambda _: 1, 0.5),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_refusal_leaves_every_setting(queue: QueueGuard, function: str) -> None:
    queue.do(Enqueue("a", 5, 0, 50_000))
    lent = set_apart(queue)
    queue.attempt(function, queue.con, *WRONG[function])
    compare(queue, lent)
