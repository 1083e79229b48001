"""The harness of the layer "delivery": what its experiments demand, and what a broken module makes of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from chaos import courier, race
from chaos.crew import Crew
from chaos.deliveries import ANSWERS, DEATHS, DELAYS, Delivery
from chaos.handover import check
from chaos.inbox import Inbox
from chaos.killer import ROOT, Unanswered
from chaos.matrix import Void
from model.contract import LOCKED, PLANTED, Ran, Return, Ticket
from model.counterexample import Violation, show
from model.queue import Queue, load

DELIVERIES = {delivery.name: delivery for delivery in (*DEATHS, *DELAYS, *ANSWERS)}
SHIPPED = (ROOT / "worker.py").read_text()

# --- what is demanded -------------------------------------------------------------------------------------------------


def test_a_killed_courier_costs_a_request_and_no_effect() -> None:
    delivery = DELIVERIES["killed after the receiver's commit"]
    (job,) = delivery.story().left.jobs
    assert (job.status, job.token, delivery.story().second) == ("done", 2, Return(Ran("a", 2, "done")))
    assert delivery.requests() == ["first", "second"]
    assert delivery.inbox() == Inbox((("a", 5),), 5)


def test_a_job_may_die_although_it_was_delivered() -> None:
    delivery = DELIVERIES["killed at the last attempt"]
    (job,) = delivery.story().left.jobs
    assert (job.status, job.reason, job.owner, job.lease_until) == ("dead", "exhausted", None, None)
    assert (delivery.story().second, delivery.requests()) == (Return(None), ["first"])
    assert delivery.inbox() == Inbox((("a", 5),), 5)


@pytest.mark.parametrize("delivery", DELIVERIES.values(), ids=DELIVERIES)
def test_no_job_has_more_than_one_effect(delivery: Delivery) -> None:
    inbox = delivery.inbox()
    assert len(inbox.rows) == (inbox.total > 0) <= 1
    (job,) = delivery.story().left.jobs
    assert len(delivery.requests()) == job.token - (delivery.road != "open")


@pytest.mark.parametrize("name", [name for name in DELIVERIES if name.startswith(("late", "overtaken"))])
def test_the_ticket_of_a_late_courier_is_stale(name: str) -> None:
    assert DELIVERIES[name].story().first == Return(Ran("a", 1, "stale"))


def test_a_fate_that_nobody_can_see_is_void() -> None:
    with pytest.raises(Void, match="unseen: nothing says when the first courier is killed"):
        Delivery("unseen", fate="is killed")


def test_a_lock_must_be_waited_for() -> None:
    assert courier.text(LOCKED, 1.0) == race.LOCKED_OUT != courier.text(LOCKED, 0.5)
    assert courier.text(PLANTED) == "raises the very error of its send"


@pytest.mark.parametrize(
    ("sql", "waits"),
    [
        ("BEGIN IMMEDIATE", True),
        (" begin exclusive", True),
        ("UPDATE jobs SET qty = 1", True),
        ("WITH x AS (SELECT 1)\nUPDATE jobs SET qty = 1", True),
        ("BEGIN", False),
        ("SELECT 1", False),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False),
    ],
)
def test_a_statement_that_needs_the_write_lock_is_known(sql: str, waits: bool) -> None:  # noqa: FBT001 - a table
    assert bool(courier.WRITES.match(sql)) is waits


# --- what a broken module makes of it ---------------------------------------------------------------------------------


@pytest.fixture
def crews() -> Iterator[list[Crew]]:
    crews: list[Crew] = []
    yield crews
    for crew in crews:
        crew.dismiss()


def _wrong(folder: Path, crews: list[Crew], change: str) -> tuple[Crew, Queue]:
    module = folder / "wrong.py"
    module.write_text(f"{SHIPPED}\n{change}\n")
    crews.append(Crew(module))
    return crews[-1], Queue(load(module), folder / "queue.db")


SELECTS_FIRST = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None):
    due = "SELECT seq, id, qty, token, attempts FROM jobs WHERE status = 'pending' AND available_at <= ? ORDER BY seq"
    row = con.execute(due, (now_ms,)).fetchone()
    if row is None:
        return None
    seq, job_id, qty, token, attempts = row
    ticket = {"id": job_id, "qty": qty, "owner": owner, "token": token + 1, "attempt": attempts + 1,
              "lease_until": now_ms + lease_ms}
    con.execute("BEGIN IMMEDIATE")
    con.execute(_LEASE, {**ticket, "seq": seq})
    con.execute("COMMIT")
    return ticket
"""
BY_OWNER = '_HELD = "SELECT attempts >= max_attempts, deadline FROM jobs WHERE id = :id AND owner = :owner"'
SENDS_ALL = "_deliver = lambda send, ticket, right=_deliver: right(lambda _: send(ticket), ticket)"
SENDS_TWICE = """
def _deliver(send, ticket, right=_deliver):
    right(send, ticket)
    return right(send, ticket)
"""


TICKET = Ticket("a", 5, "w", 1, 1, 1000)
EVENT = {"id": "a", "qty": 5}


def must_be(got: str, must: str) -> str:
    return ", must be ".join(show(Return(Ran("a", 1, status))) for status in (got, must))


def _processes() -> list[str]:
    lines = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    return [line for line in lines if "chaos.courier" in line or "chaos.inbox" in line]


def test_a_select_outside_the_lock_is_found(tmp_path: Path, crews: list[Crew], did: Counter[str]) -> None:
    crew, queue = _wrong(tmp_path, crews, SELECTS_FIRST)
    with pytest.raises(Violation, match=r"two processes claim at once: both hold one job: \{'id': 'job-00', "):
        race.check_claims(crew, queue, ("w", "x"), did)
    assert not did


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        (
            "overtaken by a namesake",
            BY_OWNER,
            "the first courier's run_file: " + must_be("done", "stale"),
        ),
        (
            "acknowledged",
            SENDS_ALL,
            f"after a send: the receiver got {json.dumps(asdict(TICKET))}, must get {json.dumps(EVENT)}",
        ),
        ("acknowledged", SENDS_TWICE, "the first courier's run_file: 2 sends, must be 1"),
    ],
    ids=["finishes by owner", "sends the whole ticket", "sends twice"],
)
def test_a_broken_delivery_is_found(
    name: str, change: str, line: str, tmp_path: Path, crews: list[Crew], did: Counter[str]
) -> None:
    crew, queue = _wrong(tmp_path, crews, change)
    with pytest.raises(Violation) as caught:
        check(DELIVERIES[name], crew, queue, did)
    assert caught.value.difference == line
    assert caught.value.program[0] == f"# {name}"
    assert not did
    assert not _processes()


def test_what_a_module_prints_is_no_word(tmp_path: Path, crews: list[Crew], did: Counter[str]) -> None:
    loud = "print('loading')\ndef _deliver(*args, right=_deliver):\n    print('sending')\n    return right(*args)"
    check(DELIVERIES["acknowledged"], *_wrong(tmp_path, crews, loud), did)
    assert did == {"deliveries": 1, "couriers killed": 0, "requests": 1}


def test_a_courier_that_ends_is_no_answer(tmp_path: Path, crews: list[Crew], did: Counter[str]) -> None:
    crew, queue = _wrong(tmp_path, crews, "run_file = lambda *_: (print('bye', flush=True), os._exit(3))")
    with pytest.raises(Unanswered, match="ended before its word ended, with status 3: bye"):
        check(DELIVERIES["acknowledged"], crew, queue, did)
    assert not _processes()


def test_a_road_that_leads_elsewhere_is_no_answer(tmp_path: Path, crews: list[Crew], did: Counter[str]) -> None:
    misread = replace(DELIVERIES["500 after the commit"], sees="TimeoutError")
    with pytest.raises(Unanswered, match="500 after the commit: the send does Unclear, not TimeoutError"):
        check(misread, *_wrong(tmp_path, crews, ""), did)


def test_the_dead_are_replaced(tmp_path: Path, crews: list[Crew], did: Counter[str]) -> None:
    crew, queue = _wrong(tmp_path, crews, "")
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
        check(DEATHS[0], crew, Queue(queue.worker, folder / "queue.db"), did)
    assert did["couriers killed"] == 2
