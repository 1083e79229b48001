"""One transaction a call: the caller's own is never joined, and no lock in the way changes or leaves anything."""

from __future__ import annotations

import sqlite3
import time

import pytest

from model import lease
from model.contract import LOCKED, Blocked, Claim, Enqueue, Raise, Reply, Return, Ticket
from model.counterexample import show, source
from model.port import fetched, impatient, one_line
from stateful_tests.clauses import CALLS, CHANGES, EVERY_CALL, Fixture, follow
from stateful_tests.guard import QueueGuard, writing
from stateful_tests.lent import lend, locks_before_it_reads

pytestmark = pytest.mark.layer("contract")

MINE = "INSERT INTO redrives (id, token, at_ms, note) VALUES ('mine', 1, 2, 'n')"


# --- the caller's own transaction -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("name", EVERY_CALL)
def test_an_open_transaction_stays_the_callers(queue: QueueGuard, name: str, end: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    lend(queue, "BEGIN IMMEDIATE", MINE)
    reply = queue.do(op)
    queue.expect(isinstance(reply, Raise), f"{source(op)} runs inside the caller's transaction, must fail")
    queue.expect(queue.in_transaction(queue.con), f"{source(op)} ends the caller's transaction, must leave it open")
    queue.expect(queue.rows() == before, f"{source(op)} commits what the caller had not")
    lend(queue, end)
    rows = queue.rows()
    added = [row.id for row in rows.redrives[len(before.redrives) :]]
    must = ["mine"] if end == "COMMIT" else []
    queue.expect(rows.jobs == before.jobs, f"{source(op)} changes a job inside the caller's transaction")
    queue.expect(added == must, f"after {source(op)} the caller's {end} leaves the rows {added}, must leave {must}")
    queue.must(op, lease.step(before, op)[1])


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_transaction_just_begun_stays_open(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    lend(queue, "BEGIN")
    reply = queue.do(op)
    queue.expect(isinstance(reply, Raise), f"{source(op)} runs inside the caller's transaction, must fail")
    queue.expect(queue.in_transaction(queue.con), f"{source(op)} ends the caller's transaction, must leave it open")
    lend(queue, "ROLLBACK")
    queue.unchanged(before)


@pytest.mark.parametrize("name", CALLS)
def test_the_write_lock_comes_before_the_first_read(queue: QueueGuard, name: str) -> None:
    program, op = CALLS[name]
    queue.prepare(program)
    locks_before_it_reads(queue, op)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_no_lock_is_left_behind(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    queue.must(op, lease.step(before, op)[1])
    queue.idle(queue.con)


# --- locks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_under_a_reader_nothing_is_changed(lockstep: Fixture, name: str) -> None:
    program, op = CALLS[name]
    pair = lockstep(connections=2)
    follow(pair, program)
    pair.do(Blocked(op))
    pair.do(Enqueue("z", 1, 0, 50_000), con=2)
    pair.do(op)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_beside_a_writer_nothing_is_changed(queue: QueueGuard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    must = lease.step(before, op)[1]
    with impatient(queue.con):
        queue.lines.append('# another connection: execute("BEGIN IMMEDIATE")')
        queue.other.execute("BEGIN IMMEDIATE").close()
        queue.must(op, LOCKED, *([] if name in CHANGES else [must]))
        queue.other.execute("ROLLBACK").close()
    queue.unchanged(before)
    queue.must(op, must)


def test_a_claim_keeps_others_out_until_its_commit(queue: QueueGuard) -> None:
    queue.do(Enqueue("a", 5, 0, 50_000))
    second = queue.open(queue.path)
    second.execute("PRAGMA busy_timeout = 0").close()
    replies: list[Reply] = []

    def fault(hook: str) -> None:
        if hook == "after-claim":
            replies.append(queue.do(Claim("x", 0), second))

    ticket = queue.call("claim", queue.con, "w", 0, fault=fault)
    queue.expect(replies == [LOCKED], f"inside after-claim another claim {[*map(show, replies)]}, must raise locked")
    must = {"id": "a", "qty": 5, "owner": "w", "token": 1, "attempt": 1, "lease_until": 1000}
    queue.expect(ticket == must, f"the claim returns {ticket!r}, must return {must!r}")
    queue.expect(queue.rows().jobs[0].attempts == 1, "two claims at once leave more than one attempt")


def test_a_claim_waits_for_a_writer(queue: QueueGuard) -> None:
    queue.do(Enqueue("a", 5, 0, 50_000))
    for _ in range(10):
        with writing(queue.path):
            began = time.monotonic()
            reply = queue.do(Claim("w", 0))
            waited = time.monotonic() - began
        if reply == Return(Ticket("a", 5, "w", 1, 1, 1000)):
            return
        # On a busy machine the holder may be late; giving up before the second is over is a fault all the same.
        late = reply == LOCKED and waited > 0.9
        queue.expect(late, f"{queue.lines[-1]} {show(reply)} after {waited:.2f} s, must wait 1 s for a writer")
    raise RuntimeError("the writer never let go in time")


# --- a full disk ------------------------------------------------------------------------------------------------------


def test_a_full_disk_says_so(queue: QueueGuard) -> None:
    ((pages,),) = fetched(queue.con, "PRAGMA page_count")
    lend(queue, f"PRAGMA max_page_count = {pages}")
    before, error = queue.rows(), None
    for number in range(1000):
        before = queue.rows()
        queue.lines[2:] = []
        _, error = queue.attempt("enqueue", queue.con, {"id": f"{number:064}", "qty": 5}, 0, 50_000)
        if error is not None:
            break
    right = isinstance(error, sqlite3.OperationalError) and "full" in str(error)
    does = f"raises {one_line(error)}" if error else "goes on"
    queue.expect(right, f"on a full disk enqueue {does}, must raise OperationalError: database or disk is full")
    queue.unchanged(before)
    lend(queue, f"PRAGMA max_page_count = {pages + 100}")
    queue.must(Enqueue("a", 5, 0, 50_000), Return(value=True))
