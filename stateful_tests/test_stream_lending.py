"""A connection lent to the receiver comes back as it was, open and with every setting of the caller's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from model.counterexample import source
from model.events import Plain
from stateful_tests.guard import StoreGuard
from stateful_tests.lent import compare, keeps_settings, keeps_settings_when_locked, says_the_same_of_rows, set_apart
from stateful_tests.stream_clauses import CALLS, CHANGES, FAILING, FIVE

pytestmark = pytest.mark.layer("contract")


@pytest.mark.parametrize("name", CALLS)
def test_an_event_leaves_every_setting(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    keeps_settings(store, op, store.prepare(program))


@pytest.mark.parametrize("name", CALLS)
def test_a_locked_event_leaves_every_setting(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    keeps_settings_when_locked(store, op, store.prepare(program))


def test_a_refusal_leaves_every_setting(store: StoreGuard) -> None:
    store.prepare(FIVE)
    lent = set_apart(store)
    for function, args in (("apply_event", (5, 1001)), ("apply_event", (True, 7)), ("consume_line", ("EVENT 5 7\n",))):
        store.attempt(function, store.con, *args)
        compare(store, lent)


@pytest.mark.parametrize("name", CALLS)
def test_rows_of_another_class_say_the_same(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    says_the_same_of_rows(store, op, store.prepare(program))


def kept_error(store: StoreGuard, op: Plain, fault: Callable[[str], None] | None = None) -> Exception | None:
    """The error of the call with all its frames, and whatever they hold."""
    store.lines += ["# the error of this call is kept, traceback and all:", source(op)]
    try:
        store.subject.call(store.con, op, fault, Exception())
    except Exception as error:  # noqa: BLE001 - whichever it is
        return error
    return None


@pytest.mark.parametrize("name", FAILING)
def test_an_error_that_is_kept_keeps_no_lock(store: StoreGuard, name: str) -> None:
    """A cursor that is not read to its end holds its lock for as long as anything, such as a frame, holds it."""
    program, op, _ = FAILING[name]
    store.prepare(program)
    error = kept_error(store, op)
    store.idle(store.con)
    store.expect(error is not None, f"{store.lines[-1]} returns, must raise")


@pytest.mark.parametrize("hook", ["after-total", "after-commit"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_hooks_error_that_is_kept_keeps_no_lock(store: StoreGuard, name: str, hook: str) -> None:
    program, op = CHANGES[name]
    store.prepare(program)

    def fault(reached: str) -> None:
        if reached == hook:
            raise RuntimeError(hook)

    error = kept_error(store, op, fault)
    store.idle(store.con)
    store.expect(error is not None, f"{store.lines[-1]} returns, must raise what its hook raises")
