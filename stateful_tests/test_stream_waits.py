"""Each wait for the network ends after the timeout, which is neither one for the session nor one for the database.

The event loop's clock is put forward, so that no check waits, and none depends on how busy the machine is. A module
with a clock of its own is given the time.
"""

from __future__ import annotations

import pytest

from model.events import event_line
from model.port import one_line
from stateful_tests.clog import CLOG, FIRST, clog
from stateful_tests.playing import UNLIMITED, DieAt
from stateful_tests.sessions import Sessions

pytestmark = pytest.mark.layer("contract")

TIMEOUT = 8.0
MANY = 1000.0

ERRORS = [Exception, TimeoutError, ConnectionResetError, KeyboardInterrupt, GeneratorExit]


# --- waits that end ---------------------------------------------------------------------------------------------------


def test_a_publisher_that_never_accepts_is_left(sessions: Sessions) -> None:
    sessions.begin(TIMEOUT)
    sessions.starve(TIMEOUT)
    sessions.raises()


def test_a_connection_that_is_never_made_is_given_up(sessions: Sessions) -> None:
    sessions.knock(TIMEOUT, crowd=True)
    sessions.starve(TIMEOUT)
    sessions.raises()


@pytest.mark.parametrize("timeout", [1, 60, 0.5, 0.001], ids=str)
def test_a_short_timeout_and_a_whole_one_are_timeouts(sessions: Sessions, timeout: float) -> None:
    sessions.knock(timeout, crowd=False)
    error = sessions.raises()
    if isinstance(error, ValueError | TypeError):
        sessions.fail(f"run_client refuses {timeout!r} seconds: {one_line(error)}")


@pytest.mark.parametrize("part", [b"", b"E", b"EVENT 1 5", b"x" * 64])
def test_a_publisher_that_falls_silent_is_left(sessions: Sessions, part: bytes) -> None:
    sessions.welcome(-1, timeout=TIMEOUT)
    sessions.send(FIRST)
    sessions.hear_acks(0)
    sessions.send(part)
    sessions.starve(TIMEOUT)
    sessions.raises()
    sessions.heard(-1, 0)
    sessions.holds(7)


def test_a_publisher_that_does_not_read_is_left(narrow: Sessions) -> None:
    narrow.write_limit = 0
    narrow.welcome(-1, timeout=TIMEOUT)
    narrow.send(CLOG)
    narrow.starve(TIMEOUT)
    narrow.raises()
    narrow.holds(7)


def test_closing_does_not_wait_for_a_reader(narrow: Sessions) -> None:
    clog(narrow, TIMEOUT)
    narrow.publisher.half_close()
    narrow.starve(TIMEOUT)
    ended = narrow.end()
    if ended.value != (1, 12) and not isinstance(ended.error, Exception):
        narrow.fail(f"run_client {ended}, must return (1, 12) or raise an error for what it could not send")
    narrow.holds(7, 5)


def test_what_waits_to_be_sent_is_sent_before_the_end(narrow: Sessions) -> None:
    clog(narrow, UNLIMITED)
    narrow.publisher.half_close()
    narrow.settle()
    narrow.hear_out()
    narrow.returns(1, 12)
    narrow.heard(-1, *[0] * CLOG.count(FIRST), 1)


@pytest.mark.parametrize("line", [b"EVENT 1  5\n", event_line(0, 8), event_line(2, 5)])
def test_an_open_side_does_not_hold_up_an_error(sessions: Sessions, line: bytes) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST, line)
    sessions.raises(sessions.client.BadLine, sessions.client.Conflict, sessions.client.Gap)
    sessions.heard(-1, 0)


# --- the first error stays the first ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind"), [(b"EVENT 2  5\n", "BadLine"), (b"EVENT 0 8\n", "Conflict"), (b"EVENT 3 5\n", "Gap")]
)
def test_a_clogged_connection_hides_no_error(narrow: Sessions, line: bytes, kind: str) -> None:
    clog(narrow, TIMEOUT, line, event_line(2, 5))
    narrow.starve(TIMEOUT)
    narrow.raises(getattr(narrow.client, kind))
    narrow.holds(7, 5)


@pytest.mark.parametrize("error", ERRORS)
def test_a_clogged_connection_hides_no_error_of_a_hook(narrow: Sessions, error: type[BaseException]) -> None:
    planted = error("planted")
    clog(narrow, TIMEOUT, event_line(2, 5), fault=DieAt("after-total", planted, nth=3))
    narrow.starve(TIMEOUT)
    narrow.arrives(planted)
    narrow.holds(7, 5)


@pytest.mark.parametrize("error", ERRORS)
def test_a_reset_hides_no_error_of_a_hook(narrow: Sessions, error: type[BaseException]) -> None:
    planted = error("planted")
    clog(narrow, TIMEOUT, event_line(2, 5), fault=DieAt("after-total", planted, 3, narrow.publisher.reset))
    narrow.starve(TIMEOUT)
    narrow.arrives(planted)
    narrow.holds(7, 5)


# --- waits that go on -------------------------------------------------------------------------------------------------


def test_the_timeout_is_none_for_the_session(sessions: Sessions) -> None:
    sessions.welcome(-1, timeout=MANY)
    for seq in range(10):
        sessions.settle()
        sessions.pass_time(0.6 * MANY)
        sessions.send(event_line(seq, seq))
        sessions.hear_acks(seq)
    sessions.settle()
    sessions.pass_time(0.6 * MANY)
    sessions.publisher.half_close()
    sessions.returns(9, 45)


@pytest.mark.parametrize("hook", ["after-total", "after-commit"])
def test_the_timeout_is_none_for_the_database(sessions: Sessions, hook: str) -> None:
    def slow(reached: str) -> None:
        if reached == hook:
            sessions.pass_time(3 * MANY)

    sessions.welcome(-1, timeout=MANY, fault=slow)
    sessions.send(event_line(0, 7), event_line(1, 5))
    sessions.hear_acks(0, 1)
    sessions.send(event_line(2, 1))
    sessions.hear_acks(2)
    sessions.publisher.half_close()
    sessions.returns(2, 13)
