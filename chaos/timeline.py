"""What a storm looked like, as data for the report: a lane for each process, and all that happened in it.

An item is ``[lane, kind, from, to, job, token, text, says]``, times in µs from the start of the storm on; ``to`` is
None for what never returned. ``model.report`` documents the whole shape.
"""

from __future__ import annotations

import bisect
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from chaos.aftermath import Aftermath, accepted, jobs_of, tickets
from model.contract import Claim, Finish, Op, Reply, Return, Ticket
from model.counterexample import show
from model.history import Call

Note = Mapping[str, Any]
Item = list[Any]
RECEIVER: Final = "receiver"


def timeline(
    left: Aftermath, notes: Sequence[Note], title: str, wrong: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The storm as data; ``wrong`` is the story of the violation that was found in it."""
    return _Timeline(left, notes).data(title, wrong or {})


class _Timeline:
    def __init__(self, left: Aftermath, notes: Sequence[Note]) -> None:
        self.left, self.notes = left, notes
        times = [call.invoked for call in left.history] + [note["at"] for note in notes]
        self.start, self.end = min(times, default=0), max(times, default=0)
        self.clock = [(note["at"], note["now_ms"]) for note in notes if note.get("note") == "clock"]
        self.by_process: defaultdict[str, list[Note]] = defaultdict(list)
        for note in notes:
            self.by_process[note["process"]].append(note)
        self.by_process.pop("", None)
        names = sorted({call.process for call in left.history} | set(self.by_process), key=_rank)
        self.lanes = [_lane(name, self.by_process[name]) for name in names]
        self.lanes.append({"group": RECEIVER, "name": RECEIVER, "pid": 0, "says": "HTTP, each delivery kept once"})
        self.number = {lane["name"]: number for number, lane in enumerate(self.lanes)}

    def data(self, title: str, wrong: Mapping[str, Any]) -> dict[str, Any]:
        calls = [self._call(call) for call in self.left.history]
        sends = [item for name in self.by_process for item in self._notes(name)]
        items = [*calls, *self._leases(), *sends, *self._requests([item for item in sends if item[1] == "send"])]
        return {
            "title": title,
            "lanes": self.lanes,
            "items": items,
            "clock": [[self._at(at), now_ms] for at, now_ms in self.clock],
            "end": self._at(self.end),
            "job": wrong.get("job", ""),
            "wrong": wrong.get("calls", []),
        }

    def _at(self, ns: int) -> int:
        return max(0, ns - self.start) // 1000

    # --- operations and leases ----------------------------------------------------------------------------------------

    def _call(self, call: Call[Op, Reply]) -> Item:
        says = "unknown: its process was killed" if call.reply is None else show(call.reply)
        ticket = _ticket(call)
        refused = isinstance(call.op, Finish) and call.reply == Return(value=False)
        return [
            self.number[call.process],
            "refused" if refused else type(call.op).__name__.lower(),
            self._at(call.invoked),
            None if call.returned is None else self._at(call.returned),
            next(jobs_of(call), ""),
            ticket.token if ticket else None,
            repr(call.op),
            says,
        ]

    def _leases(self) -> Iterator[Item]:
        """From the claim's return to the finish that was accepted, the next claim, or its end on the queue's clock."""
        deadlines = {job.id: f"{job.deadline} ms" for job in self.left.rows.jobs}
        finishes = {(call.op.ticket.id, call.op.ticket.token): call for call in accepted(self.left.history)}
        for job_id, claims in tickets(self.left.history).items():
            for claim, ticket in claims:
                later = [other.returned or self.end for other, newer in claims if newer.token > ticket.token]
                end, how = self._end(ticket, min(later, default=self.end), finishes.get((job_id, ticket.token)))
                start = claim.returned or claim.invoked
                text = f"lease of {job_id} by {ticket.owner!r} until {ticket.lease_until} ms"
                text += f"; the job's deadline {deadlines.get(job_id, 'is unknown')}"
                span = self._at(start), self._at(max(start, end))
                yield [self.number[claim.process], "lease", *span, job_id, ticket.token, text, how]

    def _end(self, ticket: Ticket, later: int, finish: Call[Finish, Return] | None) -> tuple[int, str]:
        """When a lease has ended, and how; its job may be claimed again before its finish has returned.

        A finish is in time by the clock that its caller has read, perhaps a while before the call.
        """
        over = self._passed(ticket.lease_until)
        if finish and finish.op.now_ms < ticket.lease_until and finish.invoked <= later:
            return min(finish.returned or self.end, later), f"finished: {show(finish.reply or Return(None))}"
        end, how = min((over, "over on the queue's clock"), (later, "claimed again"))
        return end, how if end < self.end else "held to the end"

    def _passed(self, now_ms: int) -> int:
        """When the queue's clock reached this time."""
        number = bisect.bisect_left(self.clock, now_ms, key=lambda tick: tick[1])
        return self.clock[number][0] if number < len(self.clock) else self.end

    # --- what befell a process ----------------------------------------------------------------------------------------

    def _notes(self, name: str) -> Iterator[Item]:
        """Sends and stalls as bars, where nothing ended them to the death of their process; the rest as marks."""
        lane, open_ = self.number[name], dict[str, Item]()
        for note in self.by_process[name]:
            at, what = self._at(note["at"]), note.get("note", "gone")
            if what == "sends":
                open_["send"] = [
                    lane,
                    "send",
                    at,
                    None,
                    note["job"],
                    note["token"],
                    f"sends {note['job']}",
                    "no answer",
                ]
            elif what == "sent" and (item := open_.pop("send", None)):
                item[3], item[7] = at, f"outcome {note['outcome']}"
                yield item
            elif what == "stops":
                open_["stall"] = [lane, "stall", at, None, "", None, f"stops: {note['place']}", "SIGSTOP"]
            elif what == "wakes":
                if item := open_.pop("stall", None):
                    item[3], item[7] = at, "SIGSTOP, then SIGCONT"
                    yield item
                yield [lane, "wake", at, at, "", None, "wakes up", "SIGCONT"]
            elif what == "gone":
                for item in open_.values():
                    yield [*item[:3], at, *item[4:7], "killed before it ended"]
                open_.clear()
                struck = any(each.get("note") == "struck" for each in self.by_process[name])
                yield [lane, "kill", at, at, "", None, "killed", "struck from outside" if struck else "by its fate"]
        yield from open_.values()

    def _requests(self, sends: Sequence[Item]) -> Iterator[Item]:
        """A commit of the receiver, or a request that it did not keep; by whom, as far as the time tells."""
        for request in self.left.requests:
            job_id, at = _job_in(request.body), self._at(request.committed or request.came)
            came = self._at(request.came)
            by = [s for s in sends if s[4] == job_id and s[2] <= came and (s[3] is None or came <= s[3])]
            who = f" from {self.lanes[by[-1][0]]['name']}" if by else ""
            kind = {"new": "commit", "not kept": "turned away"}.get(request.kept, "again")
            token = by[-1][5] if by else None
            text = f"request{who}: {request.body}"
            yield [len(self.lanes) - 1, kind, at, at, job_id, token, text, f"{request.kept}; answer {request.answer}"]


def _rank(name: str) -> tuple[str, int, str]:
    """By seat, and by number there."""
    seat, _, number = name.rpartition("-")
    return seat, int(number) if number.isdigit() else 0, name


def _lane(name: str, notes: Sequence[Note]) -> dict[str, Any]:
    """The seat, the name and the pid of a process."""
    known: dict[str, Any] = {}
    for note in notes:
        known.update(note)
    owner = f"owner {known['owner']!r}, " if known.get("owner") else ""
    says = f"{owner}clock {known.get('skew_ms', 0)} ms ahead"
    return {"group": known.get("seat", name), "name": name, "pid": known.get("pid", 0), "says": says}


def _ticket(call: Call[Op, Reply]) -> Ticket | None:
    if isinstance(call.op, Finish):
        return call.op.ticket
    value = call.reply.value if isinstance(call.op, Claim) and isinstance(call.reply, Return) else None
    return value if isinstance(value, Ticket) else None


def _job_in(body: str) -> str:
    """The id in the body of a request, if it has one."""
    try:
        event = json.loads(body)
    except ValueError:
        return ""
    return str(event.get("id", "")) if isinstance(event, dict) else ""
