"""However a session ends, nothing of it is left: no task, descriptor, thread, warning, or error that nobody took."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from model.events import event_line
from stateful_tests.clog import CLOG, FIRST, SECOND, clog
from stateful_tests.playing import DieAt
from stateful_tests.receiver import open_descriptors
from stateful_tests.sessions import Sessions

pytestmark = pytest.mark.layer("contract")

TIMEOUT = 8.0
Act = Callable[[Sessions], None]


@contextlib.contextmanager
def nothing_left(sessions: Sessions) -> Iterator[None]:
    """Nothing that the sessions within begin outlives them; asyncio looks on in its debug mode."""
    sessions.debug, sessions.kept = True, []
    gc.collect()
    numbers, threads = set(open_descriptors()), set(threading.enumerate())
    with warnings.catch_warnings(record=True) as caught, unraisable() as ignored:
        warnings.simplefilter("always")
        yield
        sessions.kept.clear()
        complaints = sessions.forget()
        gc.collect()
    left: dict[str, list[str]] = {
        "an error that nobody takes": complaints + ignored,
        "a warning": [f"{warning.category.__name__}: {warning.message}" for warning in caught],
        "a thread": [thread.name for thread in set(threading.enumerate()) - threads],
        "a descriptor": [str(number) for number in set(open_descriptors()) - numbers],
    }
    for what, things in left.items():
        if things:
            sessions.fail(f"run_client leaves {what} behind: {things[0]}")


@contextlib.contextmanager
def unraisable() -> Iterator[list[str]]:
    """What Python can only print, since there is nobody to raise it to."""
    found: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda args: found.append(f"{args.exc_value!r} in {args.object!r}")
    try:
        yield found
    finally:
        sys.unraisablehook = before


# --- ends -------------------------------------------------------------------------------------------------------------


def at_once(sessions: Sessions) -> None:
    sessions.welcome()
    sessions.publisher.half_close()
    sessions.returns(-1, 0)


def in_good_order(sessions: Sessions) -> None:
    sessions.welcome()
    sessions.send(FIRST, SECOND, FIRST)
    sessions.publisher.half_close()
    sessions.returns(1, 12)


def by(*lines: bytes) -> Act:
    """A session that this ends in an error, while the publisher keeps its side open."""

    def act(sessions: Sessions) -> None:
        sessions.welcome()
        sessions.send(FIRST, *lines)
        sessions.raises()

    return act


def in_mid_line(sessions: Sessions) -> None:
    sessions.welcome()
    sessions.send(FIRST, b"EVENT 1 5")
    sessions.publisher.half_close()
    sessions.raises()


def in_a_reset(sessions: Sessions) -> None:
    sessions.welcome()
    sessions.settle()
    sessions.publisher.reset()
    sessions.end()


def in_a_reset_before_an_answer(sessions: Sessions) -> None:
    sessions.welcome(fault=DieAt("after-commit", Exception("never"), 9))
    sessions.send(FIRST, SECOND)
    sessions.publisher.reset()
    sessions.end()


def in_silence(sessions: Sessions) -> None:
    sessions.welcome(timeout=TIMEOUT)
    sessions.starve(TIMEOUT)
    sessions.raises()


def refused(sessions: Sessions) -> None:
    sessions.knock(crowd=False)
    sessions.raises()


def before_it_began(sessions: Sessions) -> None:
    sessions.knock(TIMEOUT, crowd=True)
    sessions.starve(TIMEOUT)
    sessions.raises()


def without_a_store(sessions: Sessions) -> None:
    (folder := sessions.path.with_name("folder")).mkdir(exist_ok=True)
    sessions.begin(path=folder)
    sessions.raises()


def with_no_database(sessions: Sessions) -> None:
    sessions.path.write_bytes(b"no database " * 4096)
    sessions.begin()
    sessions.raises()


def in_the_error_of_a_hook(hook: str, error: type[BaseException]) -> Act:
    def act(sessions: Sessions) -> None:
        planted = error("planted")
        sessions.welcome(fault=DieAt(hook, planted))
        sessions.send(FIRST)
        sessions.arrives(planted)

    return act


ENDS: dict[str, Act] = {
    "at once": at_once,
    "in good order": in_good_order,
    "by a malformed line": by(b"EVENT 1  5\n", SECOND),
    "by a line too long": by(b"x" * 200, b"\n", SECOND),
    "by a conflict": by(event_line(0, 8), SECOND),
    "by a gap": by(event_line(2, 5), SECOND),
    "in mid-line": in_mid_line,
    "in a reset": in_a_reset,
    "in a reset before an answer": in_a_reset_before_an_answer,
    "in silence": in_silence,
    "refused": refused,
    "before it began": before_it_began,
    "without a store": without_a_store,
    "with no database": with_no_database,
    "in an error before the commit": in_the_error_of_a_hook("after-total", Exception),
    "in an error after the commit": in_the_error_of_a_hook("after-commit", Exception),
    "in an interrupt": in_the_error_of_a_hook("after-total", KeyboardInterrupt),
    "in an exit": in_the_error_of_a_hook("after-commit", GeneratorExit),
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_of_a_session_that_ends(sessions: Sessions, end: str) -> None:
    with nothing_left(sessions):
        ENDS[end](sessions)


CLOGGED: dict[str, Callable[[Sessions], Any]] = {
    "sent its last line": lambda narrow: narrow.publisher.half_close(),
    "reset the connection": lambda narrow: narrow.publisher.reset(),
    "sent a malformed line": lambda narrow: narrow.send(b"EVENT 2  5\n"),
    "fallen silent": lambda narrow: narrow.settle(),
}


@pytest.mark.parametrize("then", CLOGGED)
def test_nothing_is_left_of_what_nobody_reads(narrow: Sessions, then: str) -> None:
    with nothing_left(narrow):
        clog(narrow, TIMEOUT)
        CLOGGED[then](narrow)
        narrow.starve(TIMEOUT)
        narrow.end()


# --- cancellation -----------------------------------------------------------------------------------------------------


def for_a_line(sessions: Sessions) -> None:
    sessions.welcome()
    sessions.send(FIRST, b"EVENT 1")


def for_a_connection(sessions: Sessions) -> None:
    sessions.knock(crowd=True)


def to_send(sessions: Sessions) -> None:
    sessions.write_limit = 0
    sessions.welcome(timeout=TIMEOUT)
    sessions.send(CLOG)


def to_close(sessions: Sessions) -> None:
    clog(sessions, TIMEOUT)
    sessions.publisher.half_close()


WAITS: dict[str, Act] = {
    act.__name__.replace("_", " "): act for act in (for_a_line, for_a_connection, to_send, to_close)
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("waits", WAITS)
def test_a_session_can_be_cancelled_while_it_waits(narrow: Sessions, waits: str, times: int) -> None:
    with nothing_left(narrow):
        WAITS[waits](narrow)
        cancelled = False
        for _ in range(times):
            narrow.settle()
            if narrow.ended is None:
                narrow.cancel()
                cancelled = True
        narrow.starve(TIMEOUT)
        if cancelled:
            narrow.raises(asyncio.CancelledError)
        else:
            narrow.end()
