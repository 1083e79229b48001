"""A line that is none, an event that is refused, an end in mid-line or in an error: each ends the session."""

from __future__ import annotations

import pytest

from model.events import event_line
from stateful_tests.playing import DieAt
from stateful_tests.sessions import Sessions, last_and_total

pytestmark = pytest.mark.layer("contract")

ENDINGS = ("half_close", "hang_up")
FIRST, SECOND, THIRD = (event_line(seq, delta) for seq, delta in enumerate((7, -1000, 0)))


def ends_well(sessions: Sessions, *deltas: int) -> None:
    """The publisher has nothing more to say, and the store has all of it."""
    sessions.publisher.half_close()
    sessions.returns(len(deltas) - 1, sum(deltas))
    sessions.holds(*deltas)


# --- a line that ends it ----------------------------------------------------------------------------------------------

MALFORMED = {
    "an empty line": b"\n",
    "CRLF": b"EVENT 1 5\r\n",
    "CR in front": b"\rEVENT 1 5\n",
    "a blank in front": b" EVENT 1 5\n",
    "a blank behind": b"EVENT 1 5 \n",
    "two blanks": b"EVENT  1 5\n",
    "a tab": b"EVENT\t1\t5\n",
    "no delta": b"EVENT 1\n",
    "a third number": b"EVENT 1 5 6\n",
    "lower case": b"event 1 5\n",
    "another word": b"ACK 1\n",
    "a zero before seq": b"EVENT 01 5\n",
    "a zero before delta": b"EVENT 1 05\n",
    "a plus before seq": b"EVENT +1 5\n",
    "a plus before delta": b"EVENT 1 +5\n",
    "minus zero": b"EVENT 1 -0\n",
    "a negative seq": b"EVENT -1 5\n",
    "a delta below the least": b"EVENT 1 -1001\n",
    "a delta above the greatest": b"EVENT 1 1001\n",
    "an underscore": b"EVENT 1 1_0\n",
    "a float": b"EVENT 1 5.0\n",
    "digits of another alphabet": "EVENT \u0661 \u0665\n".encode(),
    "no UTF-8": b"EVENT 1 \xff\n",
    "a NUL": b"EVENT 1 5\0\n",
    "64 bytes": b"EVENT 1 5".ljust(63) + b"\n",
}

TOO_LONG = {
    "65 bytes": event_line(10**56, 0),
    "blanks up to 65 bytes": b"EVENT 1 5".ljust(64) + b"\n",
    "a good line at the end": b"x" * 64 + b"EVENT 1 5\n",
    "two reads of a good line": b"x" * 70 + b"\n",
    "zeros": b"EVENT 1 " + b"0" * 200 + b"5\n",
    "a thousand digits": b"EVENT " + b"1" * 1000 + b" 5\n",
    "ten thousand digits": b"EVENT " + b"1" * 10_000 + b" 5\n",
}

REFUSED = {
    "another delta for the last event": (event_line(1, 5), "Conflict"),
    "another delta for an earlier event": (event_line(0, 5), "Conflict"),
    "a gap of one": (event_line(3, 5), "Gap"),
    "a gap of many": (event_line(2**63, 5), "Gap"),
    "a seq that fills 64 bytes": (event_line(10**55 - 1, 0), "Gap"),
}


@pytest.mark.parametrize("kind", MALFORMED)
@pytest.mark.parametrize("after", ["at once", "apart"])
def test_what_is_no_line_ends_the_session(sessions: Sessions, kind: str, after: str) -> None:
    bad = MALFORMED[kind]
    sessions.welcome(-1)
    if after == "at once":
        sessions.send(FIRST, bad, event_line(1, 5), event_line(2, 5))
    else:
        sessions.send(FIRST)
        sessions.hear_acks(0)
        sessions.send(bad)
    sessions.publisher.half_close()
    sessions.raises(sessions.client.BadLine)
    sessions.heard(-1, 0)
    sessions.holds(7)
    sessions.welcome(0)
    ends_well(sessions, 7)


@pytest.mark.parametrize("kind", TOO_LONG)
def test_a_line_over_64_bytes_ends_the_session(sessions: Sessions, kind: str) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST, TOO_LONG[kind], event_line(1, 5))
    sessions.publisher.half_close()
    sessions.raises()
    sessions.heard(-1, 0)
    sessions.holds(7)


@pytest.mark.parametrize("size", [66, 200, 100_000])
def test_no_end_of_such_a_line_is_awaited(sessions: Sessions, size: int) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST, b"EVENT 1 ".ljust(size, b"1"))
    sessions.raises()
    sessions.heard(-1, 0)
    sessions.holds(7)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_event_ends_the_session(sessions: Sessions, kind: str) -> None:
    line, error = REFUSED[kind]
    sessions.welcome(-1)
    sessions.send(FIRST, SECOND, line, THIRD, SECOND)
    sessions.publisher.half_close()
    sessions.raises(getattr(sessions.client, error))
    sessions.heard(-1, 0, 1)
    sessions.holds(7, -1000)
    sessions.welcome(1)
    ends_well(sessions, 7, -1000)


# --- an end that is none ----------------------------------------------------------------------------------------------

FRAGMENTS = (b"E", b"EVENT 1", b"EVENT 1 5", b"EVENT 1 5\r", b"EVENT 0 7", b"x" * 64, b"x" * 200)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: f"{fragment[:10]!r} {len(fragment)} bytes")
def test_an_end_in_mid_line_is_an_error(sessions: Sessions, fragment: bytes, ending: str) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST)
    sessions.hear_acks(0)
    sessions.send(fragment)
    getattr(sessions.publisher, ending)()
    sessions.raises()
    sessions.heard(-1, 0)
    sessions.holds(7)
    sessions.welcome(0)
    ends_well(sessions, 7)


@pytest.mark.parametrize("rest", [b"", b"EVENT 1", event_line(1, -1000), event_line(1, -1000) + b"EVENT 2"])
def test_a_reset_leaves_whole_events(sessions: Sessions, rest: bytes) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST)
    sessions.hear_acks(0)
    sessions.send(rest)
    sessions.publisher.reset()
    ended, rows = sessions.end(), sessions.rows()
    last, _ = last_and_total(rows)
    if last not in (0, 1):
        sessions.fail(f"run_client leaves last at {last} after a reset, must leave it at 0 or 1")
    sessions.holds(*(7, -1000)[: last + 1])
    right = isinstance(ended.error, Exception) if ended.error else ended.value == last_and_total(rows)
    if not right:
        sessions.fail(f"run_client {ended} after a reset, must raise an error or return what the store holds")
    sessions.welcome(last)
    sessions.send(SECOND)
    ends_well(sessions, 7, -1000)


def test_a_reset_at_once_leaves_nothing(sessions: Sessions) -> None:
    sessions.begin()
    sessions.accept()
    sessions.publisher.reset()
    sessions.end()
    sessions.welcome(-1)
    ends_well(sessions)


# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Exception, ValueError, TimeoutError, ConnectionResetError])
@pytest.mark.parametrize(("hook", "kept"), [("after-total", 1), ("after-commit", 2)])
def test_the_error_of_a_hook_ends_the_session(sessions: Sessions, hook: str, kept: int, error: type[Exception]) -> None:
    planted = error("planted")
    sessions.welcome(-1, fault=DieAt(hook, planted, nth=2))
    sessions.send(FIRST)
    sessions.hear_acks(0)
    sessions.send(SECOND, THIRD)
    sessions.arrives(planted)
    sessions.heard(-1, 0)
    sessions.holds(*(7, -1000)[:kept])
    sessions.welcome(kept - 1)
    sessions.send(SECOND)
    ends_well(sessions, 7, -1000)


# --- no session at all ------------------------------------------------------------------------------------------------


def test_no_publisher_is_an_error(sessions: Sessions) -> None:
    sessions.knock(crowd=False)
    sessions.raises()


def test_a_path_that_is_no_file_is_an_error(sessions: Sessions) -> None:
    (folder := sessions.path.with_name("folder")).mkdir()
    sessions.begin(path=folder)
    sessions.raises()
