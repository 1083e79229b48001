"""What goes over the wire, and what the store then holds: RESUME, events, acknowledgements, ends."""

from __future__ import annotations

from itertools import accumulate

import pytest

from model.events import ack_line, event_line
from stateful_tests.sessions import Sessions

pytestmark = pytest.mark.layer("contract")

DELTAS = (7, -1000, 0, 1000, -3)
ENDINGS = ("half_close", "hang_up")


def event(seq: int) -> bytes:
    """The line that says this event of ``DELTAS``."""
    return event_line(seq, DELTAS[seq])


def ends_well(sessions: Sessions, *deltas: int) -> None:
    """The publisher has nothing more to say, and the store has all of it."""
    sessions.publisher.half_close()
    sessions.returns(len(deltas) - 1, sum(deltas))
    sessions.holds(*deltas)


# --- a session that ends well -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_new_store_resumes_from_minus_one(sessions: Sessions, ending: str) -> None:
    sessions.welcome(-1)
    getattr(sessions.publisher, ending)()
    sessions.returns(-1, 0)
    sessions.heard(-1)
    sessions.holds()


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_acknowledged_event_is_in_the_file(sessions: Sessions, ending: str) -> None:
    sessions.welcome(-1)
    for seq in range(len(DELTAS)):
        sessions.send(event(seq))
        sessions.hear_acks(seq)
        sessions.holds(*DELTAS[: seq + 1])
    getattr(sessions.publisher, ending)()
    sessions.returns(4, sum(DELTAS))
    sessions.heard(-1, *range(5))


def test_no_acknowledgement_comes_before_the_commit(sessions: Sessions) -> None:
    early: list[tuple[int, bytes]] = []
    reached: list[str] = []

    def fault(hook: str) -> None:
        reached.append(hook)
        seq = reached.count("after-total") - 1
        if hook == "after-total" and ack_line(seq) in (pending := sessions.publisher.pending()):
            early.append((seq, pending))

    sessions.welcome(-1, fault=fault)
    sessions.send(*map(event, range(5)))
    ends_well(sessions, *DELTAS)
    for seq, pending in early:
        sessions.fail(f"the publisher hears {pending!r} before event {seq} is committed")
    must = ["after-total", "after-commit"] * 5
    if reached != must:
        sessions.fail(f"run_client reaches the hooks {reached} for 5 new events, must reach {must}")


def test_the_same_event_again_gets_its_ack(sessions: Sessions) -> None:
    sessions.welcome(-1)
    for seq in (0, 0, 1, 1, 0, 2, 1):
        sessions.send(event(seq))
        sessions.hear_acks(seq)
    ends_well(sessions, *DELTAS[:3])
    sessions.heard(-1, 0, 0, 1, 1, 0, 2, 1)


def test_the_next_call_resumes_after_the_last_event(sessions: Sessions) -> None:
    for start, total in enumerate(accumulate(DELTAS)):
        sessions.welcome(start - 1)
        sessions.send(event(start))
        sessions.publisher.half_close()
        sessions.returns(start, total)
        sessions.heard(start - 1, start)
    sessions.welcome(4)
    sessions.send(*map(event, range(5)))
    ends_well(sessions, *DELTAS)
    sessions.heard(4, *range(5))


def test_all_events_of_one_segment_are_acknowledged(sessions: Sessions) -> None:
    deltas = [seq % 2001 - 1000 for seq in range(300)]
    sessions.welcome(-1)
    sessions.send(*(event_line(seq, delta) for seq, delta in enumerate(deltas)))
    ends_well(sessions, *deltas)
    sessions.heard(-1, *range(300))


def test_bytes_may_come_one_by_one(sessions: Sessions) -> None:
    sessions.welcome(-1)
    for seq in range(2):
        for byte in event(seq):
            sessions.settle()
            sessions.send(bytes([byte]))
        sessions.hear_acks(seq)
    ends_well(sessions, *DELTAS[:2])


def test_a_line_may_be_cut_anywhere(sessions: Sessions) -> None:
    sessions.welcome(-1)
    stream = b"".join(map(event, range(2)))
    for cut in range(1, len(stream)):
        sessions.send(stream[:cut])
        sessions.settle()
        sessions.send(stream[cut:])
        sessions.hear_acks(0, 1)
    ends_well(sessions, *DELTAS[:2])


def test_the_path_may_be_a_text(sessions: Sessions) -> None:
    sessions.begin(path=str(sessions.path))
    sessions.accept()
    sessions.send(event(0))
    ends_well(sessions, *DELTAS[:1])
    sessions.heard(-1, 0)
