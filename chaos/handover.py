"""One delivery: the first courier sends, something happens to it, the second one takes over; three witnesses agree."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from chaos import inbox
from chaos.courier import Order, text
from chaos.crew import Crew
from chaos.deliveries import Delivery, Road, Story
from chaos.inbox import Request
from chaos.killer import Unanswered, patience
from chaos.trial import differences_at
from model import lease
from model.contract import RunOnce
from model.counterexample import Violation, show, source
from model.port import perform
from model.queue import Queue

SHORT_S: Final = 0.2
"""How long a courier waits for what never comes."""


def check(delivery: Delivery, crew: Crew, queue: Queue, did: Counter[str]) -> None:
    """The queue's rows, the receiver's request log and the receiver's inbox must all be what the model says."""
    story = delivery.story()
    with crew.at_work(), _road(delivery.road) as port:
        crew.call("first", "second")
        handover = Handover(delivery, crew, queue)
        handover.prepare()
        handover.first(story, port or crew.port)
        handover.second(story)
        handover.settle(story)
    did["deliveries"] += 1
    did["couriers killed"] += delivery.fate == "is killed"
    did["requests"] += len(delivery.requests())


@contextlib.contextmanager
def _road(road: Road) -> Iterator[int]:
    """The port that the first courier is sent to; 0 for the receiver's own."""
    if road == "open":
        yield 0
        return
    with socket.socket() as nobody, socket.socket() as waiting:
        nobody.bind(("127.0.0.1", 0))
        if road == "jammed":  # its queue is full with the one that waits in it
            nobody.listen(0)
            waiting.connect(nobody.getsockname())
        yield nobody.getsockname()[1]


@dataclass(frozen=True, slots=True)
class Handover:
    """One delivery under way; ``lines`` grow into the account that a Violation gives."""

    delivery: Delivery
    crew: Crew
    queue: Queue
    lines: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """A queue with the one job, and a receiver that knows its script."""
        job, path = self.delivery.job, self.queue.path
        with contextlib.closing(self.queue.worker.open_queue(path)) as con:
            reply = perform(self.queue, con, job)
        self.lines.append(f"{source(job, 'con')}  # {show(reply)}")
        self._agree("before the first courier", differences_at(self.queue, lease.step(lease.EMPTY, job)[0]))
        self.crew.script(self._inbox, *self.delivery.turns)
        if self.delivery.known:
            inbox.take(self._inbox, job.id, self.delivery.known)
            self.lines.append(f"# receiver: has {job.id!r} already, with quantity {self.delivery.known}")

    def first(self, story: Story, port: int) -> None:
        """Send. Whether the first courier has ended or is waiting: its claim is committed, and nobody holds a lock."""
        delivery = self.delivery
        timeout_s = SHORT_S if delivery.impatient else patience()
        self.crew.order("first", Order(str(self.queue.path), repr(delivery.first), port, timeout_s))
        self.lines.append(f"# first courier: {run_file(delivery.first)}")
        if delivery.fate == "ends":
            self._hear_first(story)
        if delivery.turn.hold:
            self._await_request("first")
        when = "after the first courier" if delivery.fate == "ends" else "while the first courier sends"
        self._agree(when, differences_at(self.queue, story.found, writing=True))
        if delivery.fate == "is killed":
            self.crew.kill("first")
            self.lines.append("# first courier: SIGKILL")

    def second(self, story: Story) -> None:
        """Another process, at the time at which the model lets it in, or just before it."""
        self.crew.order("second", Order(str(self.queue.path), repr(story.run), self.crew.port, patience()))
        self.lines.append(f"# second courier: {run_file(story.run)}")
        if self.delivery.fate == "is overtaken":
            self._await_request("second")
            self._release(1)
            self._hear_first(story)
            self._agree("while the second courier sends", differences_at(self.queue, story.amid, writing=True))
            self._release(2)
        self._hear("second", text(story.second), ["True"] * self.delivery.second_sends())

    def settle(self, story: Story) -> None:
        """What still stands goes on; then the three witnesses are heard."""
        if self.delivery.turn.hold and self.delivery.fate != "is overtaken":
            self._release(1)
        if self.delivery.fate == "is late":
            self._hear_first(story)
        self._agree("after both couriers", self._log_differs())
        self._agree("after both couriers", differences_at(self.queue, story.left, writing=True))
        if (got := inbox.read(self._inbox)) != (must := self.delivery.inbox()):
            raise Unanswered(f"the receiver got the right requests, but its inbox holds {got}, must hold {must}")

    # --- one at a time ------------------------------------------------------------------------------------------------

    @property
    def _inbox(self) -> Path:
        return self.queue.path.with_name("inbox.db")

    def _await_request(self, courier: str) -> None:
        """Its request stands. A courier whose fate is not to end first has to be waiting for the answer."""
        if (courier == "second" or self.delivery.fate != "ends") and self.crew.ends_early(courier):
            reply, _ = self._report(courier)
            self._fail(f"the {courier} courier's run_file", f"{reply}, before its request was answered")
        number, where = self.crew.stands()
        self.lines.append(f"# receiver: request {number} stands {where}")

    def _release(self, number: int) -> None:
        self.crew.release(number)
        self.lines.append(f"# receiver: request {number} goes on")

    def _hear_first(self, story: Story) -> None:
        self._hear("first", text(story.first), [self.delivery.sees])

    def _hear(self, courier: str, must: str, must_send: list[str]) -> None:
        """The courier's reply, and what its sends did: there must be one, or none where there is nothing to do."""
        reply, sends = self._report(courier)
        self.lines.append(f"# {courier} courier: {reply}" + f"; its send: {', '.join(sends)}" * bool(sends))
        if sends != must_send and len(sends) == len(must_send):
            self._misled(sends, must_send)
        if reply != must:
            self._fail(f"the {courier} courier's run_file", f"{reply}, must be {must}")
        if sends != must_send:
            self._fail(f"the {courier} courier's run_file", f"{len(sends)} sends, must be {len(must_send)}")

    def _misled(self, sends: list[str], must_send: list[str]) -> NoReturn:
        """What comes back is not what was arranged: because of what was sent, or for a reason of the harness."""
        for number, _ in enumerate(self.delivery.turns, 1):
            self.crew.release(number)
        self._agree("after a send", self._bodies_differ(self._log()))
        raise Unanswered(f"{self.delivery.name}: the send does {', '.join(sends)}, not {', '.join(must_send)}")

    def _report(self, courier: str) -> tuple[str, list[str]]:
        _, (reply,), sends = self.crew.report(courier)
        return reply, sends

    def _log(self) -> list[Request]:
        log = self.crew.log()
        for number, request in enumerate(log, 1):
            self.lines.append(f"# receiver: request {number}: {request.body}: {request.kept}")
        return log

    def _log_differs(self) -> str:
        log, must = self._log(), len(self.delivery.requests())
        requests = f"the receiver got {len(log)} requests, must get {must}" * (len(log) != must)
        return self._bodies_differ(log) or requests

    def _bodies_differ(self, log: list[Request]) -> str:
        must = json.dumps({"id": self.delivery.job.id, "qty": self.delivery.job.qty})
        return next((f"the receiver got {got.body}, must get {must}" for got in log if got.body != must), "")

    def _agree(self, when: str, difference: str) -> None:
        if difference:
            self._fail(when, difference)

    def _fail(self, when: str, what: str) -> NoReturn:
        raise Violation(f"{when}: {what}", [f"# {self.delivery.name}", *self.lines])


def run_file(run: RunOnce) -> str:
    """The call that a courier makes, as source."""
    clock = f"iter(({run.first_ms}, {run.second_ms})).__next__"
    return f'worker.run_file("queue.db", {run.owner!r}, {clock}, send, {run.jitter!r}, {run.lease_ms})'
