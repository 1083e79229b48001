"""A lent connection comes back as it was, open and with every setting of the caller's."""

from __future__ import annotations

import pytest

from model.contract import Enqueue
from stateful_tests.clauses import EVERY_CALL
from stateful_tests.guard import QueueGuard
from stateful_tests.lent import compare, keeps_settings, keeps_settings_when_locked, says_the_same_of_rows, set_apart

pytestmark = pytest.mark.layer("contract")


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_call_leaves_every_setting(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    keeps_settings(queue, op, queue.prepare(program))


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_locked_call_leaves_every_setting(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    keeps_settings_when_locked(queue, op, queue.prepare(program))


@pytest.mark.parametrize("name", EVERY_CALL)
def test_rows_of_another_class_say_the_same(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    says_the_same_of_rows(queue, op, queue.prepare(program))


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
