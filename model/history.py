"""A concurrent history as data: calls with their two ends, as JSON lines, and made up.

Each process writes a file of its own: a line before an operation starts and a line after it returned, with times in ns
on one clock that all processes share (``time.monotonic_ns``). Whoever reaps a killed process may write that it ended.
Notes may stand between these lines: what else happened, for whoever looks at it; no call depends on them.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from model import lease
from model.contract import (
    LOCKED,
    OUTCOMES,
    Claim,
    Enqueue,
    Finish,
    Odd,
    Op,
    Plain,
    Raise,
    Ran,
    Redrive,
    Reply,
    Return,
    State,
    Ticket,
    parse,
)

O = TypeVar("O")  # noqa: E741 - the operations, as R the replies
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[O, R]):
    """One operation from invoke to return; one call is before another if it returned at an earlier time.

    A call without a reply is info: it happened at some time from its invoke on, or not at all. If ``returned`` is
    known all the same, its process was gone by then, and it did not happen later.
    """

    process: str
    op: O
    invoked: int
    returned: int | None = None
    reply: R | None = None

    def __post_init__(self) -> None:
        if self.reply is not None and self.returned is None:
            raise ValueError(f"a reply without a return: {self}")
        if self.returned is not None and self.returned < self.invoked:
            raise ValueError(f"returned before its invoke: {self}")

    def __str__(self) -> str:
        until = "" if self.returned is None else str(self.returned)
        reply = "unknown" if self.reply is None else repr(self.reply)
        return f"{self.process} [{self.invoked}..{until}] {self.op!r} -> {reply}"


def cut(history: Sequence[Call[O, R]], at: int) -> tuple[Call[O, R], ...]:
    """What had been written down when the return at time ``at`` was: what returned later is still unknown."""
    return tuple(
        call if call.returned is not None and call.returned <= at else replace(call, returned=None, reply=None)
        for call in history
        if call.invoked <= at
    )


# --- JSON lines -------------------------------------------------------------------------------------------------------


def invoke_line(process: str, op: Op, at: int) -> str:
    """The line to write, and to flush, before ``op`` starts."""
    return json.dumps({"at": at, "process": process, "invoke": repr(op)}) + "\n"


def return_line(process: str, reply: Reply, at: int) -> str:
    """The line to write after the operation that ``process`` had invoked returned."""
    return json.dumps({"at": at, "process": process, "reply": encode(reply)}) + "\n"


def gone_line(process: str, at: int) -> str:
    """The line to write after ``process`` was found dead."""
    return json.dumps({"at": at, "process": process, "gone": True}) + "\n"


def note_line(process: str, what: str, at: int, **more: int | str) -> str:
    """The line to write when something else happened to ``process``."""
    return json.dumps({"at": at, "process": process, "note": what, **more}) + "\n"


def lines(history: Iterable[Call[Op, Reply]]) -> Iterator[str]:
    """A history as one file, in the order of time; of two lines at one time of one process the return is first."""
    timed = []
    for call in history:
        timed.append((call.invoked, 1, invoke_line(call.process, call.op, call.invoked)))
        if call.returned is not None and call.reply is not None:
            timed.append((call.returned, 0, return_line(call.process, call.reply, call.returned)))
        elif call.returned is not None:
            timed.append((call.returned, 0, gone_line(call.process, call.returned)))
    return (line for _, _, line in sorted(timed, key=lambda one: one[:2]))


def read(*files: str) -> tuple[Call[Op, Reply], ...]:
    """The history that these texts hold together, by invoke; ValueError for a line that nobody can have written.

    A last line that was torn when its writer died is left out: an operation whose invoke is torn had not started, one
    whose return is torn is info.
    """
    events = [event for event in _sorted(files) if "note" not in event]
    open_calls: dict[str, Call[Op, Reply]] = {}
    calls: list[Call[Op, Reply]] = []
    for event in events:
        process, at = str(event["process"]), int(event["at"])
        if "invoke" in event:
            calls += [open_calls[process]] if process in open_calls else []
            open_calls[process] = Call(process, parse(event["invoke"]), at)
        elif process in open_calls:
            reply = decode(event["reply"]) if "reply" in event else None
            calls.append(replace(open_calls.pop(process), returned=at, reply=reply))
        elif "reply" in event:
            raise ValueError(f"a return without an invoke: {event}")
    return tuple(sorted([*calls, *open_calls.values()], key=lambda call: call.invoked))


def notes(*files: str) -> tuple[dict[str, Any], ...]:
    """The notes in these texts, and who is gone, each as it was written, in the order of time."""
    return tuple(event for event in _sorted(files) if "note" in event or "gone" in event)


def _sorted(files: Iterable[str]) -> list[dict[str, Any]]:
    return sorted((event for text in files for event in _events(text)), key=lambda event: int(event["at"]))


def _events(text: str) -> Iterator[dict[str, Any]]:
    *whole, torn = text.split("\n")
    for number, line in enumerate(whole, 1):
        try:
            yield _event(line)
        except ValueError as error:
            raise ValueError(f"line {number} is no event of a history: {line!r}") from error
    try:
        yield _event(torn)
    except ValueError:
        return


def _event(line: str) -> dict[str, Any]:
    event = json.loads(line)
    if not isinstance(event, dict) or not {"at", "process"} < event.keys():
        raise ValueError(line)
    return event


def encode(reply: Reply) -> object:
    """The reply as JSON; ``decode`` is its inverse."""
    if isinstance(reply, Raise):
        return {"raises": reply.error}
    value = reply.value
    return {"returns": asdict(value) if isinstance(value, Ticket | Ran | Odd) else value}


def decode(data: object) -> Reply:
    """The reply that ``encode`` wrote; ValueError for anything else."""
    match data:
        case {"raises": str(error)}:
            return Raise(error)
        case {"returns": None | bool() | str() as value}:
            return Return(value)
        case {"returns": dict() as fields}:
            for form in (Ticket, Ran, Odd):
                if fields.keys() == set(form.__slots__):
                    return Return(form(**fields))
    raise ValueError(f"not a reply: {data!r}")


# --- made up ----------------------------------------------------------------------------------------------------------

MS = 1_000_000
"""Times of calls are ns, those of the queue ms; both begin at 0 here."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A crowd at a queue: shares of 1, spans in ms."""

    processes: int = 8
    producers: int = 2
    jobs: int = 40
    killed: float = 0.02
    reaped: float = 0.0
    locked: float = 0.02
    redriven: float = 0.03
    lease_ms: int = 60
    ttl_ms: int = 600


class Chance(Protocol):
    """What ``random.Random(seed)`` offers: nothing here is random but by what the caller lends."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int, /) -> int: ...


class _Due(NamedTuple):
    """A call whose place in the order is at ``at``."""

    at: int
    seat: int
    process: str
    op: Plain
    invoked: int


class Made(NamedTuple):
    """A history, and the rows that it leaves."""

    history: tuple[Call[Op, Reply], ...]
    final: State


def made(random: Chance, ops: int, mix: Mix | None = None) -> Made:
    """A linearizable history by construction: each call takes effect at one instant between its two ends.

    A killed process is replaced by another; what its call did is kept or lost, and its last call stays info.
    """
    crowd = _Crowd(mix or Mix(), random)
    return Made(tuple(crowd.calls(ops)), crowd.state)


class _Crowd:
    """Processes that work on one queue, one call at a time each; ``state`` is what they have made of it so far."""

    def __init__(self, mix: Mix, random: Chance) -> None:
        self.mix = mix
        self.random = random
        self.state = lease.EMPTY
        self.held: dict[int, Ticket] = {}
        self.due: list[_Due] = []

    def calls(self, ops: int) -> Iterator[Call[Op, Reply]]:
        for seat in range(self.mix.processes):
            self._sit(seat, f"p{seat}", 0)
        for _ in range(ops):
            due = heapq.heappop(self.due)
            killed, locked = (self.random.random() < share for share in (self.mix.killed, self.mix.locked))
            after, reply = lease.step(self.state, due.op)
            if locked or (killed and self.random.random() < 0.5):
                after, reply = self.state, LOCKED
            self.state = after
            returned = due.at + self._span(3)
            if killed:
                self.held.pop(due.seat, None)
                self._sit(due.seat, f"{due.process}'", returned)
                yield Call(
                    due.process, due.op, due.invoked, returned if self.random.random() < self.mix.reaped else None
                )
            else:
                self._take(due.seat, reply)
                self._sit(due.seat, due.process, returned)
                yield Call(due.process, due.op, due.invoked, returned, reply)

    def _span(self, most_ms: int) -> int:
        return self.random.randrange(1, most_ms * MS)

    def _take(self, seat: int, reply: Reply) -> None:
        if isinstance(reply, Return) and isinstance(reply.value, Ticket):
            self.held[seat] = reply.value

    def _sit(self, seat: int, process: str, free: int) -> None:
        invoked = free + self._span(2)
        op = self._op(seat, process, invoked // MS)
        heapq.heappush(self.due, _Due(invoked + self._span(5), seat, process, op, invoked))

    def _op(self, seat: int, process: str, now_ms: int) -> Plain:
        if seat in self.held and self.random.random() < 0.8:
            outcome = OUTCOMES[self.random.randrange(0, len(OUTCOMES))]
            return Finish(self.held.pop(seat), outcome, now_ms, self.random.randrange(0, self.mix.lease_ms))
        job_id, share = f"j{self.random.randrange(0, self.mix.jobs)}", self.random.random()
        if share < self.mix.redriven:
            return Redrive(job_id, now_ms, self.mix.ttl_ms, "why")
        if seat < self.mix.producers:
            return Enqueue(job_id, 1, now_ms, self.mix.ttl_ms)
        return Claim(process.rstrip("'"), now_ms, self.mix.lease_ms)
