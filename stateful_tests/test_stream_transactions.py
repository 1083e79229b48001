"""One transaction an event: the caller's own is never joined, and no lock in the way changes or leaves anything."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

import pytest

from model import stream
from model.contract import LOCKED, Blocked, Raise, Reply
from model.counterexample import reply_differs, show, source
from model.events import Apply, Consume, Plain, State
from model.port import fetched, impatient, one_line
from stateful_tests.guard import StoreGuard
from stateful_tests.lent import lend, locks_before_it_reads
from stateful_tests.stream_clauses import CALLS, CHANGES, FIVE, StoreFixture, prepare

pytestmark = pytest.mark.layer("contract")

MINE = "INSERT INTO mine (x) VALUES (1)"


def table_of_mine(store: StoreGuard) -> Callable[[], int]:
    """A table that the caller keeps in the same file; how many rows others see in it."""
    store.other.execute("CREATE TABLE mine (x)").close()
    store.lines.append('con1.execute("CREATE TABLE mine (x)")')
    return lambda: len(store.other.execute("SELECT x FROM mine").fetchall())


# --- the caller's own transaction -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("name", CALLS)
def test_an_open_transaction_stays_the_callers(store: StoreGuard, name: str, end: str) -> None:
    program, op = CALLS[name]
    before, mine = store.prepare(program), table_of_mine(store)
    lend(store, "BEGIN IMMEDIATE", MINE)
    reply = store.do(op)
    store.expect(isinstance(reply, Raise), f"{source(op)} runs inside the caller's transaction, must fail")
    store.expect(store.in_transaction(store.con), f"{source(op)} ends the caller's transaction, must leave it open")
    store.expect(not mine(), f"{source(op)} commits what the caller had not")
    lend(store, end)
    kept, must = mine(), int(end == "COMMIT")
    store.expect(kept == must, f"after {source(op)} the caller's {end} leaves {kept} of its rows, must leave {must}")
    store.unchanged(before)
    store.must(op, stream.step(before, op)[1])


@pytest.mark.parametrize("name", CALLS)
def test_a_transaction_just_begun_stays_open(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    before = store.prepare(program)
    lend(store, "BEGIN")
    reply = store.do(op)
    store.expect(isinstance(reply, Raise), f"{source(op)} runs inside the caller's transaction, must fail")
    store.expect(store.in_transaction(store.con), f"{source(op)} ends the caller's transaction, must leave it open")
    lend(store, "ROLLBACK")
    store.unchanged(before)


@pytest.mark.parametrize("name", CALLS)
def test_no_transaction_is_left_behind(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    before = store.prepare(program)
    after, reply = stream.step(before, op)
    store.must(op, reply)
    store.unchanged(after)


# --- the write lock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_the_write_lock_comes_before_the_first_read(store: StoreGuard, name: str) -> None:
    program, op = CALLS[name]
    store.prepare(program)
    locks_before_it_reads(store, op)


RACES: dict[str, Plain] = {
    "the same event": Apply(0, 7),
    "another event": Apply(0, 8),
    "the next event": Apply(1, 8),
    "an event too early": Apply(2, 8),
    "the same line": Consume(b"EVENT 0 7\n"),
    "another line": Consume(b"EVENT 0 8\n"),
    "the next line": Consume(b"EVENT 1 8\n"),
}


@pytest.mark.parametrize("race", RACES)
def test_last_is_read_under_the_write_lock(store: StoreGuard, race: str) -> None:
    """Another receiver commits event 0 in the moment before BEGIN: from then on that is what counts."""
    op = RACES[race]
    overtaken: list[str] = []

    def overtake(statement: str) -> None:
        if overtaken or store.con.in_transaction or not statement.lstrip().upper().startswith("BEGIN"):
            return
        with contextlib.suppress(sqlite3.OperationalError):
            store.other.execute("BEGIN IMMEDIATE").close()
            store.other.execute("INSERT INTO ledger (seq, delta) VALUES (0, 7)").close()
            store.other.execute("UPDATE checkpoint SET last = 0, total = 7").close()
            store.other.execute("COMMIT").close()
            overtaken.append(statement)

    store.con.set_trace_callback(overtake)
    reply = store.do(op)
    store.con.set_trace_callback(None)
    store.lines.append("# just before its BEGIN, another connection has committed event 0 with delta 7")
    before = stream.step(State(), Apply(0, 7))[0] if overtaken else State()
    after, must = stream.step(before, op)
    difference = reply_differs(op, reply, must)
    store.expect(not difference, f"{source(op)}, overtaken by event 0, {difference}")
    store.unchanged(after)


def test_an_event_keeps_others_out_until_its_commit(store: StoreGuard) -> None:
    second = store.open(store.path)
    second.execute("PRAGMA busy_timeout = 0").close()
    replies: list[Reply] = []

    def fault(hook: str) -> None:
        if hook == "after-total":
            replies.append(store.do(Apply(0, 7), second))

    store.call("apply_event", store.con, 0, 7, fault=fault)
    store.expect(replies == [LOCKED], f"inside after-total another call {[*map(show, replies)]}, must raise locked")
    store.unchanged(stream.step(State(), Apply(0, 7))[0])


# --- locks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_under_a_reader_nothing_is_changed(store_lockstep: StoreFixture, name: str) -> None:
    """The COMMIT fails: no ACK, no transaction left open, and the event can come again."""
    program, op = CALLS[name]
    pair = store_lockstep(connections=2)
    prepare(pair, program)
    pair.do(Blocked(op))
    pair.do(op, con=2)
    pair.do(op)


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("name", CALLS)
def test_beside_a_writer_nothing_is_changed(store: StoreGuard, name: str, lock: str) -> None:
    program, op = CALLS[name]
    before = store.prepare(program)
    must = stream.step(before, op)[1]
    with impatient(store.con):
        store.lines.append(f'# another connection: execute("{lock}")')
        store.other.execute(lock).close()
        store.must(op, LOCKED, *([] if name in CHANGES else [must]))
        store.other.execute("ROLLBACK").close()
    store.unchanged(before)
    store.must(op, must)


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["apply_event", "consume_line"])
def test_a_full_disk_says_so(store: StoreGuard, way: str) -> None:
    rows = [(seq, -1000) for seq in range(380)]
    store.other.execute("BEGIN").close()
    store.other.executemany("INSERT INTO ledger (seq, delta) VALUES (?, ?)", rows).close()
    store.other.execute("UPDATE checkpoint SET last = 379, total = -380000").close()
    store.other.execute("COMMIT").close()
    ((pages,),) = fetched(store.con, "PRAGMA page_count")
    store.lines.append("# ... 380 events with delta -1000")
    lend(store, f"PRAGMA max_page_count = {pages}")
    seq, before, error = 380, store.rows(), None
    while error is None and seq < 2000:
        store.lines[3:] = []
        before = store.rows()
        args = (seq, -1000) if way == "apply_event" else (b"EVENT %d -1000\n" % seq,)
        _, error = store.attempt(way, store.con, *args)
        seq += 1
    right = isinstance(error, sqlite3.OperationalError) and "full" in str(error)
    does = f"raises {one_line(error)}" if error else "goes on"
    store.expect(right, f"on a full disk {way} {does}, must raise OperationalError: database or disk is full")
    store.unchanged(before)
    lend(store, f"PRAGMA max_page_count = {pages + 100}")
    store.must(Apply(seq - 1, -1000), stream.TRUE)


def test_a_failed_event_can_come_again(store: StoreGuard) -> None:
    """On the same connection, at once, and as often as it takes."""
    store.prepare(FIVE)
    with impatient(store.con):
        for _ in range(3):
            store.other.execute("BEGIN IMMEDIATE").close()
            store.must(Apply(5, 1), LOCKED)
            store.other.execute("ROLLBACK").close()
    store.must(Apply(5, 1), stream.TRUE)
    store.must(Apply(5, 1), stream.FALSE)
