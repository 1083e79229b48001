"""The judge of what a storm leaves: each thing that it must not leave, made by hand, beside one that it may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from chaos.aftermath import SHOWN, Aftermath, judge
from chaos.inbox import Inbox, Request
from chaos.killer import Unanswered
from model.contract import LOCKED, Claim, Enqueue, Finish, Job, Op, Raise, Redrive, Reply, Return, State, Ticket
from model.counterexample import Violation, show
from model.history import MS, Call
from model.linearizability import check

One = Call[Op, Reply]

YES, NO, NOTHING, DONE = Return(value=True), Return(value=False), Return(None), Return("done")
NEW = Request('{"id": "a", "qty": 5}', "new")
AGAIN = replace(NEW, kept="known")

ENQUEUE = Enqueue("a", 5, 0, 100, 3)
CLAIM, LATER = Claim("v", 0, 10), Claim("w", 10, 10)
FIRST, SECOND = Ticket("a", 5, "v", 1, 1, 10), Ticket("a", 5, "w", 2, 2, 20)
OK = Finish(FIRST, "ok", 5)
AFTER = Finish(SECOND, "ok", 15)

ROW = Job(1, "a", 5, "done", 1, 3, 1, 5, 100, None, None, None)
"""What is left of the job after ENQUEUE, CLAIM and OK."""

TWICE = ROW._replace(attempts=2, token=2, available_at=15)
"""After ENQUEUE, CLAIM, LATER and AFTER."""


def in_turn(*steps: tuple[Op, Reply | None]) -> tuple[One, ...]:
    """One call after another, each by a process of its own, for 5 ms each; one without a reply is killed."""
    return tuple(
        Call(f"p{at}", op, 10 * MS * at, None if reply is None else (10 * at + 5) * MS, reply)
        for at, (op, reply) in enumerate(steps, 1)
    )


def found(
    history: Sequence[One],
    *rows: Job,
    inbox: Inbox = Inbox((("a", 5),), 5),  # noqa: B008 - a tuple
    sent: Sequence[Request] = (NEW,),
    problem: str = "",
) -> Aftermath:
    """What is left, if the receiver has kept the one job once."""
    return Aftermath(history, State(rows), inbox, sent, problem)


def left(*steps: tuple[Op, Reply | None], row: Job = ROW, sent: Sequence[Request] = (NEW,)) -> Aftermath:
    """What these calls leave, one after another, if the job was sent."""
    return found(in_turn(*steps), row, sent=sent)


def unsent(*steps: tuple[Op, Reply | None], rows: Sequence[Job] = (), problem: str = "") -> Aftermath:
    """What these calls leave, one after another, if the receiver heard of nothing."""
    return found(in_turn(*steps), *rows, inbox=Inbox(), sent=(), problem=problem)


ADDED, GOT, FINISHED = (ENQUEUE, YES), (CLAIM, Return(FIRST)), (OK, DONE)
RETAKEN, REFINISHED = (LATER, Return(SECOND)), (AFTER, DONE)


RETRY = (replace(OK, outcome="retry"), Return("pending"))
BURY = (replace(OK, outcome="permanent"), Return("dead"))
DEAD = ROW._replace(status="dead", reason="permanent")
PENDING = ROW._replace(status="pending", attempts=0, token=0, available_at=0)
LEASED = ROW._replace(status="leased", available_at=0, owner="v", lease_until=10)

OTHERS = (Enqueue("b", 1, 0, 100), YES)
OTHER = Ticket("b", 1, "v", 1, 1, 10)
OTHER_ROW = ROW._replace(seq=2, id="b", qty=1)
OTHER_NEW = Request('{"id": "b", "qty": 1}', "new")
BOTH = in_turn(ADDED, OTHERS, GOT, (CLAIM, Return(OTHER)), FINISHED, (Finish(OTHER, "ok", 5), DONE))
TWO = Inbox((("a", 5), ("b", 1)), 6)

RIGHT = {
    "nothing at all": unsent(),
    "a job that is done": left(ADDED, GOT, FINISHED),
    "two jobs that are done": found(
        BOTH,
        ROW,
        OTHER_ROW,
        inbox=TWO,
        sent=(NEW, OTHER_NEW),
    ),
    "a finish at the last moment": left(ADDED, GOT, (replace(OK, now_ms=9), DONE), row=ROW._replace(available_at=9)),
    "a late finish that is refused": left(ADDED, GOT, (replace(OK, now_ms=10), NO), RETAKEN, REFINISHED, row=TWICE),
    "an old token that is refused": left(ADDED, GOT, RETAKEN, (OK, NO), REFINISHED, row=TWICE),
    "a second finish that is refused": left(ADDED, GOT, FINISHED, (OK, NO)),
    "a finish that finds the file locked": left(ADDED, GOT, (OK, LOCKED), FINISHED),
    "a finish that was killed and happened": left(ADDED, GOT, (OK, None)),
    "a finish after one with an older token": left(ADDED, GOT, RETRY, RETAKEN, REFINISHED, row=TWICE),
    "a finish that touches a later claim": found(
        (
            *in_turn(ADDED, GOT),
            Call("x", LATER, 26 * MS, 30 * MS, Return(SECOND)),
            Call("y", RETRY[0], 30 * MS, 35 * MS, RETRY[1]),
            Call("z", AFTER, 40 * MS, 45 * MS, DONE),
        ),
        TWICE,
    ),
    "a token of a claim that was killed": left(ADDED, (CLAIM, None), RETAKEN, REFINISHED, row=TWICE),
    "an enqueue that was killed and lost": unsent((ENQUEUE, None)),
    "an enqueue that was killed and happened": left((ENQUEUE, None), GOT, FINISHED),
    "an enqueue that found the file locked": unsent((ENQUEUE, LOCKED)),
    "a job that was there already": left(ADDED, (ENQUEUE, NO), GOT, FINISHED),
    "a job in conflict with another": left(ADDED, (replace(ENQUEUE, qty=6), Raise("Conflict")), GOT, FINISHED),
    "all attempts used up": left(
        (replace(ENQUEUE, max_attempts=1), YES), GOT, FINISHED, row=ROW._replace(max_attempts=1)
    ),
    "a dead job that reached nobody": unsent(ADDED, GOT, BURY, rows=[DEAD]),
    "a dead job that reached the receiver": left(ADDED, GOT, BURY, row=DEAD),
    "a job that was sent twice": left(ADDED, GOT, RETAKEN, REFINISHED, row=TWICE, sent=(NEW, AGAIN)),
    "an open job of a storm cut short": unsent(ADDED, rows=[PENDING], problem="nobody says anything"),
}


@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT)
def test_what_a_storm_may_leave_passes(right: Aftermath) -> None:
    judge(right)


WRONG = {
    "a job that is lost": (unsent(ADDED), "a is lost: the enqueue by p1 returned True"),
    "a known job that is lost": (
        unsent((ENQUEUE, None), (ENQUEUE, NO)),
        "a is lost: the enqueue by p2 returned False",
    ),
    "a delivery of a job that is nowhere": (
        found(in_turn(ADDED, GOT, FINISHED), ROW, inbox=TWO, sent=(NEW, OTHER_NEW)),
        "b reached the receiver and is not in the queue",
    ),
    "a finish at the end of its lease": (
        left(ADDED, GOT, (replace(OK, now_ms=10), DONE), row=ROW._replace(available_at=10)),
        "the finish of a by p3 with token 1 is accepted ('done'), at 10, when its lease had ended at 10",
    ),
    "a finish after a later claim": (
        left(ADDED, GOT, RETAKEN, FINISHED, row=TWICE),
        "the finish of a by p4 with token 1 is accepted ('done'), after p3 got token 2",
    ),
    "a second finish of one ticket": (
        left(ADDED, GOT, FINISHED, (OK, DONE)),
        "the finish of a by p4 with token 1 is accepted ('done'), after p3 had finished it with token 1",
    ),
    "a finish after that of a later token": (
        left(ADDED, GOT, REFINISHED, FINISHED, row=TWICE),
        "the finish of a by p4 with token 1 is accepted ('done'), after p3 had finished it with token 2",
    ),
    "a token that is issued twice": (
        left(ADDED, GOT, GOT, FINISHED),
        "token 1 of a was issued to p2 and to p3",
    ),
    "a token beyond that of the row": (
        left(ADDED, GOT, RETAKEN, REFINISHED, row=TWICE._replace(token=1)),
        "token 2 of a was issued to p3, and its row has 1",
    ),
    "a gap that no claim explains": (
        left(ADDED, (OK, None), RETAKEN, REFINISHED, row=TWICE),
        "1 tokens, such as 1 of a, were issued by no claim (0 unknown)",
    ),
    "a gap that one claim cannot explain": (
        left(ADDED, (CLAIM, None), GOT, row=LEASED._replace(token=3)),
        "2 tokens, such as 2 of a, were issued by no claim (1 unknown)",
    ),
    "a row with too many attempts": (left(ADDED, GOT, FINISHED, row=ROW._replace(attempts=4)), "a has 4 attempts of 3"),
    "a ticket with too many attempts": (
        left(ADDED, GOT, RETAKEN, REFINISHED, row=TWICE._replace(attempts=1, max_attempts=1)),
        "attempt 2 of 1 of a by p3",
    ),
    "a job that is left pending": (
        unsent(ADDED, rows=[PENDING]),
        "a is left pending: no claim takes it, its deadline is 100",
    ),
    "a job that is left leased": (
        left(ADDED, GOT, row=LEASED),
        "a is left leased, by v with token 1 until 10: no claim takes it, its deadline is 100",
    ),
    "a job that is done and unsent": (
        unsent(ADDED, GOT, FINISHED, rows=[ROW]),
        "a is done and never reached the receiver",
    ),
    "a delivery in another quantity": (
        found(in_turn(ADDED, GOT, FINISHED), ROW, inbox=Inbox((("a", 6),), 6)),
        "the receiver got 6 of a, must get 5",
    ),
}


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG)
def test_what_a_storm_must_not_leave_is_named(wrong: Aftermath, words: str) -> None:
    with pytest.raises(Violation) as raised:
        judge(wrong)
    assert raised.value.difference == words


def test_a_storm_cut_short_may_still_be_wrong() -> None:
    with pytest.raises(Violation, match="a is lost"):
        judge(unsent(ADDED, problem="nobody says anything"))


# --- the order of the whole history -----------------------------------------------------------------------------------


def test_a_history_without_an_order_is_wrong() -> None:
    with pytest.raises(Violation) as raised:
        judge(left(ADDED, (CLAIM, NOTHING), GOT, FINISHED))
    assert raised.value.difference.startswith("no order explains the first 2 returns: p2 ")
    assert "    without a place:" in raised.value.program


def test_rows_that_no_order_ends_in_are_wrong() -> None:
    with pytest.raises(Violation) as raised:
        judge(left(ADDED, GOT, FINISHED, row=ROW._replace(available_at=6)))
    assert raised.value.difference == (
        "no order ends in the final state; after one of them: jobs row 'a': available_at is 6, must be 5"
    )


def test_a_claimed_job_must_have_a_row() -> None:
    with pytest.raises(Violation) as raised:
        judge(unsent((ENQUEUE, None), GOT))
    assert raised.value.difference == (
        "no order ends in the final state; after one of them: jobs has 0 rows, must have 1"
    )


def test_numbers_of_rows_may_have_gaps() -> None:
    judge(left(ADDED, GOT, FINISHED, row=ROW._replace(seq=7)))


def test_a_search_without_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.aftermath.check", partial(check, budget=2))
    with pytest.raises(Unanswered, match=r"the history of 3 calls: unknown: no answer after 2 steps"):
        judge(left(ADDED, GOT, FINISHED))


# --- a receiver that must not be believed -----------------------------------------------------------------------------


ONE = in_turn(ADDED, GOT, FINISHED)
BROKEN = {
    "an effect of more than the rows": found(ONE, ROW, inbox=Inbox((("a", 5),), 10)),
    "a row of two deliveries": found(ONE, ROW, sent=(NEW, NEW)),
    "a row of no delivery": found(ONE, ROW, sent=(AGAIN,)),
    "two rows of one delivery": found(
        BOTH,
        ROW,
        OTHER_ROW,
        inbox=TWO,
        sent=(NEW, NEW),
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_receiver_accuses_no_worker(broken: Aftermath) -> None:
    with pytest.raises(Unanswered, match="the receiver contradicts itself"):
        judge(broken)


# --- what a failure shows ---------------------------------------------------------------------------------------------


def test_a_failure_shows_its_job_alone() -> None:
    refused = (Redrive("a", 1, 9, "why"), Raise("ValueError"))
    history = in_turn((OTHERS[0], None), ADDED, (CLAIM, NOTHING), GOT, refused, (OK, None))
    with pytest.raises(Violation) as raised:
        judge(found(history, LEASED, OTHER_ROW._replace(status="pending", attempts=0, token=0)))
    assert raised.value.program == (
        f"10.000..15.000  p2  {ENQUEUE!r}  # True",
        f"30.000..35.000  p4  {CLAIM!r}  # {show(Return(FIRST))}",
        f"40.000..45.000  p5  {refused[0]!r}  # raises ValueError",
        f"50.000..killed  p6  {OK!r}  # unknown",
        f"row: {LEASED}",
    )


def test_a_failure_shows_the_last_calls() -> None:
    with pytest.raises(Violation) as raised:
        judge(unsent(ADDED, *[(ENQUEUE, NO)] * SHOWN, rows=[PENDING]))
    assert raised.value.program == (
        *(f"{10 * at}.000..{10 * at + 5}.000  p{at + 1}  {ENQUEUE!r}  # False" for at in range(1, SHOWN + 1)),
        f"row: {PENDING}",
    )
