"""The deliveries: what the receiver does to the first request, what becomes of its courier, and what must be left.

An experiment is data. The model says what the queue must hold while the first courier sends, when the second one
starts, and in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from chaos.experiments import free_at
from chaos.inbox import Inbox, Turn
from chaos.matrix import Void
from model import lease
from model.contract import Claim, Enqueue, Finish, Plain, Ran, Reply, Return, RunOnce, Send, State, Ticket

Fate = Literal["ends", "is killed", "is late", "is overtaken"]
"""The first courier: has ended before the second one starts; is killed in its send, where its request stands; hears
its answer only when the second one has ended; hears it while the second one sends, and holds the job."""

Road = Literal["open", "refused", "jammed"]
"""Where the first courier's connection leads: to the receiver; to nobody; to one who never gets round to it."""

KEPT: Final = Turn()
COMMITTED: Final = Turn(hold="after the commit")
UNCOMMITTED: Final = Turn(hold="before the commit")

JOB: Final = Enqueue("a", 5, 0, 50_000)
LAST_TRY: Final = replace(JOB, max_attempts=1)
FIRST: Final = RunOnce("w", 0, 5, jitter=0.29)
"""Of the retry delay of 100 ms this share is 28.999…: it must be rounded down."""


class Story(NamedTuple):
    """What must be seen: the queue when the second courier starts, both replies, what that one does, what is left.

    ``amid`` is the queue when an overtaken courier has ended and the second one still sends.
    """

    found: State
    first: Reply
    run: RunOnce
    amid: State
    second: Reply
    left: State


@dataclass(frozen=True, slots=True)
class Delivery:
    """One job and two couriers.

    ``turn`` is the receiver's for the first request, ``sees`` is what it makes the first courier's send do, and
    ``send`` is what that is in the contract's words. The second courier starts at ``second_ms``, by default as soon as
    there may be something to do. ``known``: the receiver has the job already, in this quantity.
    """

    name: str
    turn: Turn = KEPT
    sees: str = "True"
    send: Send = "ok"
    fate: Fate = "ends"
    job: Enqueue = JOB
    road: Road = "open"
    known: int = 0
    first_end_ms: int = 5
    second_owner: str = "x"
    second_ms: int | None = None

    def __post_init__(self) -> None:
        if self.fate != "ends" and self.turn.hold is None:
            raise Void(f"{self.name}: nothing says when the first courier {self.fate}")

    @property
    def first(self) -> RunOnce:
        return replace(FIRST, send=self.send, second_ms=self.first_end_ms)

    @property
    def impatient(self) -> bool:
        """Whether the first courier must not wait: what it waits for never comes, or only after it has ended."""
        return self.road == "jammed" or (self.fate == "ends" and self.turn.hold is not None)

    def story(self) -> Story:
        """What the model says."""
        start, _ = lease.step(lease.EMPTY, self.job)
        sending, _ = lease.step(start, Claim(self.first.owner, self.first.first_ms, self.first.lease_ms))
        ended, first = lease.step(start, self.first)
        found = ended if self.fate == "ends" else sending
        at_ms = free_at(found, self.first.second_ms) if self.second_ms is None else self.second_ms
        run = RunOnce(self.second_owner, at_ms, at_ms + 5)
        amid, (claim, *rest) = found, _in_steps(sending, run)
        left, second = lease.step(found, run)
        if self.fate == "is late":
            left, first = lease.step(start, replace(self.first, meanwhile=(claim, *rest)))
        if self.fate == "is overtaken":
            amid, first = lease.step(start, replace(self.first, meanwhile=(claim,)))
            left, _ = lease.step(amid, *rest)
        return Story(found, first, run, amid, second, left)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The receiver's script: the second request stands, too, if the first is to be answered in the meantime."""
        return (self.turn, COMMITTED) if self.fate == "is overtaken" else (self.turn,)

    def requests(self) -> list[str]:
        """Whose requests the receiver must have seen, in this order."""
        first = ["first"] if self.road == "open" else []
        return first + ["second"] * self.second_sends()

    def second_sends(self) -> bool:
        """Whether there is something left to do for the second courier."""
        second = self.story().second
        return isinstance(second, Return) and isinstance(second.value, Ran)

    def inbox(self) -> Inbox:
        """What the receiver must hold: the job once, if it was ever committed, and its quantity as the effect."""
        first = "first" in self.requests() and self.turn.commits
        qty = self.known or (self.job.qty if first or self.second_sends() else 0)
        return Inbox(((self.job.id, qty),), qty) if qty else Inbox()


def _in_steps(state: State, run: RunOnce) -> tuple[Plain, ...]:
    """The operations of a run whose send is ok."""
    claim = Claim(run.owner, run.first_ms, run.lease_ms)
    _, reply = lease.step(state, claim)
    ticket = reply.value if isinstance(reply, Return) else None
    return (claim, Finish(ticket, "ok", run.second_ms)) if isinstance(ticket, Ticket) else (claim,)


_UNKNOWN: Final = (
    Delivery("500, nothing committed", Turn(500, commits=False), "Unclear", "error"),
    Delivery("500 after the commit", Turn(500), "Unclear", "error"),
    Delivery("reset before the commit", Turn("reset", commits=False), "ConnectionResetError", "error"),
    Delivery("reset after the commit", Turn("reset"), "ConnectionResetError", "error"),
    Delivery("an answer that is cut off", Turn("cut off"), "IncompleteRead", "error"),
    Delivery("another acknowledgement", Turn("wrong body"), "another return", "bad-ack"),
    Delivery("no commit and no answer in time", Turn(hold="before the commit"), "TimeoutError", "error"),
    Delivery("a commit and no answer in time", Turn(hold="before the answer"), "TimeoutError", "error"),
    Delivery("half an answer in time", Turn(hold="within the answer"), "TimeoutError", "error"),
)

ANSWERS: Final = (
    Delivery("acknowledged"),
    Delivery("503, nothing committed", Turn(503, commits=False), "Retryable", "retryable"),
    Delivery("503 after the commit", Turn(503), "Retryable", "retryable"),
    Delivery("429, nothing committed", Turn(429, commits=False), "Retryable", "retryable"),
    Delivery("503 at the last attempt", Turn(503, commits=False), "Retryable", "retryable", job=LAST_TRY),
    Delivery("connection refused", sees="Retryable", send="retryable", road="refused"),
    Delivery("no connection in time", sees="Retryable", send="retryable", road="jammed"),
    Delivery("400", Turn(400, commits=False), "Permanent", "permanent"),
    Delivery("409 for another quantity", KEPT, "Permanent", "permanent", known=6),
    *_UNKNOWN,
)
"""What comes back, each line of the courier's table: nobody dies, and the second courier comes when it may."""

DEATHS: Final = (
    Delivery("killed after the receiver's commit", COMMITTED, fate="is killed"),
    Delivery("killed before the receiver's commit", UNCOMMITTED, fate="is killed"),
    Delivery("killed within the answer", Turn(hold="within the answer"), fate="is killed"),
    Delivery("killed, replaced by a namesake", COMMITTED, fate="is killed", second_owner="w"),
    Delivery("killed, replaced too early", COMMITTED, fate="is killed", second_ms=999),
    Delivery("killed at the last attempt", COMMITTED, fate="is killed", job=LAST_TRY),
)

DELAYS: Final = (
    Delivery("late after the commit", COMMITTED, fate="is late"),
    Delivery("late before the commit", UNCOMMITTED, fate="is late"),
    Delivery("late for a namesake", COMMITTED, fate="is late", second_owner="w"),
    Delivery("late by its own clock too", COMMITTED, fate="is late", first_end_ms=1500),
    Delivery("late with a 503", Turn(503, hold="after the commit"), "Retryable", "retryable", "is late"),
    Delivery("late with a 400", Turn(400, hold="after the commit"), "Permanent", "permanent", "is late"),
    Delivery("late at the last attempt", COMMITTED, fate="is late", job=LAST_TRY),
    Delivery("overtaken after the commit", COMMITTED, fate="is overtaken"),
    Delivery("overtaken by a namesake", COMMITTED, fate="is overtaken", second_owner="w"),
    Delivery("overtaken with a 503", Turn(503, hold="after the commit"), "Retryable", "retryable", "is overtaken"),
    Delivery("overtaken with a 400", Turn(400, hold="after the commit"), "Permanent", "permanent", "is overtaken"),
    Delivery("slow, but not late", COMMITTED, fate="is late", second_ms=999),
)
