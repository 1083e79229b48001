"""A long stream: no event is forgotten, and none of what comes in one go is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import pytest

from model import stream
from model.counterexample import differences
from model.events import Apply, Checkpoint, Entry, State, event_line
from model.port import connect
from stateful_tests.guard import StoreGuard
from stateful_tests.options import Profile
from stateful_tests.sessions import Sessions

pytestmark = pytest.mark.layer("contract")

LONG = 33_000
AT_ONCE = 10_500
"""Lines of 14 bytes: more than any buffer of asyncio or of a careful program holds."""


def put(store: StoreGuard, ledger: Iterable[Entry], checkpoint: Checkpoint) -> None:
    """Over a connection of the harness."""
    with contextlib.closing(connect(store.path)) as con:
        con.execute("BEGIN").close()
        con.executemany("INSERT INTO ledger (seq, delta) VALUES (?, ?)", ledger).close()
        con.execute("UPDATE checkpoint SET last = ?, total = ?", (checkpoint.last, checkpoint.total)).close()
        con.execute("COMMIT").close()


def test_every_event_of_a_long_stream_counts(store: StoreGuard, profile: Profile) -> None:
    long = LONG // profile.every
    put(store, (Entry(seq, 1 + seq % 9) for seq in range(long)), Checkpoint(1, long - 1, 7))
    store.lines.append(f"# {long} events are put there, with deltas of 1 + seq % 9")
    state: State = store.rows()
    for seq in (long, 0, 1, long // 2, long - 1, long + 2):
        for delta in (1 + seq % 9, -1):
            state, reply = stream.step(state, Apply(seq, delta))
            store.must(Apply(seq, delta), reply)
            store.did["operations compared"] += 1
    if difference := differences(store.rows(), state):
        store.fail(f"{store.lines[-1]} leaves {difference}")


def test_no_line_of_many_at_once_is_lost(sessions: Sessions, profile: Profile) -> None:
    many = AT_ONCE // profile.every
    sessions.welcome(-1)
    sessions.send(*[event_line(0, -1000)] * many, event_line(1, 5))
    sessions.hear_acks(*[0] * many, 1)
    sessions.publisher.half_close()
    sessions.returns(1, -995)
    sessions.holds(-1000, 5)
