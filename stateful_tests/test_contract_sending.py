"""run_once step by step: what it calls, in what order, with what, and whose error arrives."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from model.contract import LOCKED, Claim, Enqueue, Ran, Return, RunOnce
from model.port import impatient, one_line
from model.queue import Worker
from stateful_tests.guard import PLANTED_TEXT, QueueGuard, planted_error

pytestmark = pytest.mark.layer("contract")

FALSE = {"__bool__": lambda _: False, "__len__": lambda _: 0}
ANSWERS: dict[str, Callable[[Worker], object]] = {
    "True": lambda _: True,
    "Retryable": lambda worker: planted_error(worker.Retryable),
    "a subclass of Retryable": lambda worker: planted_error(type("Busy", (worker.Retryable,), {})),
    "Permanent": lambda worker: planted_error(worker.Permanent),
    "a subclass of Permanent": lambda worker: planted_error(type("Gone", (worker.Permanent,), {})),
    "a Retryable that is false": lambda worker: planted_error(type("Empty", (worker.Retryable,), FALSE)),
    "a Permanent that is false": lambda worker: planted_error(type("Empty", (worker.Permanent,), FALSE)),
}
STATUS = {
    "True": "done",
    "Retryable": "pending",
    "a subclass of Retryable": "pending",
    "Permanent": "dead",
    "a subclass of Permanent": "dead",
    "a Retryable that is false": "pending",
    "a Permanent that is false": "dead",
}


class Always:
    """Equal to everything, and true."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


BAD_ACKS = {
    "None": None,
    "False": False,
    "1": 1,
    "1.0": 1.0,
    "a text": "true",
    "an empty list": [],
    "a dict": {"ok": True},
    "an object": object(),
    "an object equal to True": Always(),
    "the class bool": bool,
    "an error that is not raised": ValueError("returned"),
}

ERRORS: dict[str, type[BaseException]] = {
    "Exception": Exception,
    "ValueError": ValueError,
    "TimeoutError": TimeoutError,
    "StopIteration": StopIteration,
    "sqlite3.OperationalError": sqlite3.OperationalError,
    "FileNotFoundError": FileNotFoundError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "GeneratorExit": GeneratorExit,
}


class Recorder:
    """A clock and a send that write down when they are called."""

    def __init__(self, readings: list[object], answer: object = True) -> None:  # noqa: FBT002 - the ack itself
        self.readings, self.answer = readings, answer
        self.called: list[str] = []
        self.events: list[Any] = []
        self.look: Callable[[], object] = lambda: None

    def clock(self) -> object:
        reading = self.readings[self.called.count("clock")]
        self.called.append("clock")
        if isinstance(reading, BaseException):
            raise reading
        return reading

    def send(self, event: Any) -> object:  # noqa: ANN401 - it is what is judged
        self.called.append("send")
        self.events.append(event)
        self.look()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def leased(queue: QueueGuard) -> None:
    """The one job is leased to ``w`` with token 1, and the connection is idle."""
    (job,) = queue.rows().jobs
    held = job.status, job.owner, job.attempts, job.token, job.lease_until
    must = "leased", "w", 1, 1, 1000
    queue.expect(held == must, f"{queue.lines[-1]} must leave the job leased, but leaves {held}, not {must}")
    queue.idle(queue.con)


@pytest.fixture
def job(queue: QueueGuard) -> QueueGuard:
    """A queue with one job, due at 0."""
    queue.must(Enqueue("a", 5, 0, 50_000), Return(value=True))
    return queue


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ANSWERS)
def test_clock_claim_send_clock_finish(job: QueueGuard, answer: str) -> None:
    run = Recorder([0, 1], ANSWERS[answer](job.worker))
    seen: list[Any] = []
    run.look = lambda: seen.append(job.rows().jobs[0].status)
    ran = job.call("run_once", job.con, "w", run.clock, run.send, 0.5)
    must = ["clock", "send", "clock"]
    job.expect(run.called == must, f"{job.lines[-1]} calls {run.called}, must call {must}")
    job.expect(seen == ["leased"], f"{job.lines[-1]} sends a job that another connection sees {seen}, must be leased")
    wanted = {"id": "a", "token": 1, "status": STATUS[answer]}
    job.expect(ran == wanted and type(ran) is dict, f"{job.lines[-1]} returns {ran!r}, must return {wanted!r}")
    job.expect(job.rows().jobs[0].status == STATUS[answer], f"{job.lines[-1]} must commit {STATUS[answer]!r}")


def test_without_a_job_the_clock_is_read_once(queue: QueueGuard) -> None:
    run = Recorder([0, 1])
    got = queue.call("run_once", queue.con, "w", run.clock, run.send, 0.5)
    queue.expect(got is None, f"{queue.lines[-1]} returns {got!r}, must return None")
    queue.expect(run.called == ["clock"], f"{queue.lines[-1]} calls {run.called}, must call clock once")


def test_the_send_is_outside_any_transaction(job: QueueGuard) -> None:
    run = Recorder([0, 1])

    def look() -> None:
        job.expect(not job.con.in_transaction, "run_once sends inside a transaction of its connection")
        other = job.connect()
        try:
            other.execute("BEGIN IMMEDIATE").close()
        except sqlite3.OperationalError as error:
            job.fail(f"while run_once sends, another connection cannot write: {error}")
        other.execute("ROLLBACK").close()

    run.look = look
    _, error = job.attempt("run_once", job.con, "w", run.clock, run.send, 0.5)
    job.expect(error is None, str(error))


def test_each_send_gets_a_new_dict(job: QueueGuard) -> None:
    job.must(Enqueue("b", 6, 0, 50_000), Return(value=True))
    run = Recorder([0, 1, 1, 2])
    for _ in range(2):
        job.call("run_once", job.con, "w", run.clock, run.send, 0.5)
    shapes = [(type(event), dict(event), *map(type, event.values())) for event in run.events]
    must = [(dict, {"id": "a", "qty": 5}, str, int), (dict, {"id": "b", "qty": 6}, str, int)]
    job.expect(shapes == must, f"send gets {run.events!r}, must get dicts of exactly id and qty")
    job.expect(run.events[0] is not run.events[1], "send gets the same dict twice, must get a new one each time")


@pytest.mark.parametrize("answer", ["True", "Retryable", "Permanent"])
def test_a_spoiled_dict_does_not_change_the_ticket(job: QueueGuard, answer: str) -> None:
    run = Recorder([0, 1], ANSWERS[answer](job.worker))
    run.look = lambda: run.events[0].update(id="b", qty=6, token=9, owner="x", attempt=9, lease_until=1)
    ran = job.call("run_once", job.con, "w", run.clock, run.send, 0.5)
    must = {"id": "a", "token": 1, "status": STATUS[answer]}
    job.expect(ran == must, f"{job.lines[-1]} returns {ran!r} after send changed its dict, must return {must!r}")


def test_the_delay_is_not_the_sends_to_choose(job: QueueGuard) -> None:
    wishes = dict.fromkeys(("retry_after", "retry_after_ms", "delay", "delay_ms", "jitter"), 7)
    wish: BaseException = planted_error(type("Wish", (job.worker.Retryable,), wishes))
    job.call("run_once", job.con, "w", Recorder([0, 1]).clock, Recorder([], wish).send, 0.5)
    (row,) = job.rows().jobs
    job.expect(row.available_at == 51, f"{job.lines[-1]} makes the job due at {row.available_at}, must at 1 + 50")


# --- a run inside another's send --------------------------------------------------------------------------------------


def inner(job: QueueGuard, ran: list[object]) -> None:
    """Another job is run meanwhile, on a connection of its own."""
    with contextlib.closing(job.worker.open_queue(job.path)) as con:
        ran.append(job.worker.run_once(con, "x", lambda: 0, lambda _: True, 0.5))


def in_a_thread(job: QueueGuard, ran: list[object]) -> None:
    def run() -> None:
        ran.append(job.worker.run_file(job.path, "x", lambda: 0, lambda _: True, 0.5))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    job.expect(not thread.is_alive(), "run_file in another thread does not return while the first one's send waits")


PATIENCE_S = 20.0
"""No run waits for more than a lock, and that for a second."""


@pytest.mark.parametrize("way", [inner, in_a_thread])
def test_another_job_is_run_meanwhile(job: QueueGuard, way: Callable[[QueueGuard, list[object]], None]) -> None:
    job.must(Enqueue("b", 6, 0, 50_000), Return(value=True))
    run, ran = Recorder([0, 1]), list[object]()
    run.look = lambda: way(job, ran)
    ran.append(job.call("run_once", job.con, "w", run.clock, run.send, 0.5))
    must = [{"id": name, "token": 1, "status": "done"} for name in ("b", "a")]
    job.expect(ran == must, f"{job.lines[-1]}, whose send runs the next job, and that run return {ran}, must {must}")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ack", BAD_ACKS)
def test_only_true_itself_is_an_ack(job: QueueGuard, ack: str) -> None:
    run = Recorder([0, 1])

    def send(event: object) -> object:
        run.send(event)
        return BAD_ACKS[ack]

    job.refused(job.worker.BadAck, "run_once", job.con, "w", run.clock, send, 0.5)
    job.expect(run.called == ["clock", "send"], f"{job.lines[-1]} calls {run.called}, must call clock and send once")
    leased(job)


@pytest.mark.parametrize("kind", [*ERRORS, "BadAck", "Conflict"])
def test_the_error_of_a_send_arrives_itself(job: QueueGuard, kind: str) -> None:
    planted = planted_error(ERRORS.get(kind) or getattr(job.worker, kind))
    run = Recorder([0, 1], planted)
    job.raises(planted, "run_once", job.con, "w", run.clock, run.send, 0.5)
    job.expect(run.called == ["clock", "send"], f"{job.lines[-1]} calls {run.called}, must call clock and send once")
    leased(job)


@pytest.mark.parametrize("name", ["Retryable", "Permanent"])
def test_an_error_that_was_made_of_another_arrives_itself(job: QueueGuard, name: str) -> None:
    error = planted_error(getattr(job.worker, name))
    caused = RuntimeError(PLANTED_TEXT)
    caused.__cause__ = caused.__context__ = error
    namesake = type(name, (Exception,), {})(PLANTED_TEXT)
    for place, planted in enumerate((caused, ExceptionGroup(PLANTED_TEXT, [error]), namesake)):
        run = Recorder([1000 * place, 1000 * place], planted)
        job.raises(planted, "run_once", job.con, "w", run.clock, run.send, 0.5)
        (row,) = job.rows().jobs
        job.expect(
            row.status == "leased", f"{job.lines[-1]} raises {one_line(planted)} and leaves the job {row.status}"
        )


@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt", "SystemExit", "Retryable", "Permanent"])
def test_the_error_of_the_first_clock_arrives_itself(job: QueueGuard, kind: str) -> None:
    before = job.rows()
    run = Recorder([planted := planted_error(ERRORS.get(kind) or getattr(job.worker, kind))])
    job.raises(planted, "run_once", job.con, "w", run.clock, run.send, 0.5)
    job.expect(run.called == ["clock"], f"{job.lines[-1]} calls {run.called}, must call clock alone")
    job.unchanged(before)


@pytest.mark.parametrize("answer", ["True", "Retryable", "Permanent"])
@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt", "Retryable", "Permanent"])
def test_the_error_of_the_second_clock_keeps_the_claim(job: QueueGuard, kind: str, answer: str) -> None:
    planted = planted_error(ERRORS.get(kind) or getattr(job.worker, kind))
    run = Recorder([0, planted], ANSWERS[answer](job.worker))
    job.raises(planted, "run_once", job.con, "w", run.clock, run.send, 0.5)
    leased(job)


def test_a_locked_finish_keeps_the_claim(job: QueueGuard) -> None:
    with impatient(job.con), contextlib.closing(job.connect()) as writer:
        run = Recorder([0, 1])
        run.look = lambda: writer.execute("BEGIN IMMEDIATE").close()
        error = job.refused(sqlite3.OperationalError, "run_once", job.con, "w", run.clock, run.send, 0.5)
        job.expect("locked" in str(error), f"{job.lines[-1]} raises {one_line(error)}, must say that it is locked")
        writer.execute("ROLLBACK").close()
    leased(job)
    job.must(Claim("x", 999), Return(None))
    job.must(RunOnce("w", 1000, 1000), Return(Ran("a", 2, "done")))


def test_a_locked_claim_sends_nothing(job: QueueGuard) -> None:
    before, run = job.rows(), Recorder([0, 1])
    with impatient(job.con), contextlib.closing(job.connect()) as writer:
        writer.execute("BEGIN IMMEDIATE").close()
        job.must(RunOnce("w", 0, 1), LOCKED)
        error = job.refused(sqlite3.OperationalError, "run_once", job.con, "w", run.clock, run.send, 0.5)
        writer.execute("ROLLBACK").close()
    job.expect("locked" in str(error), f"{job.lines[-1]} raises {one_line(error)}, must say that it is locked")
    job.expect(run.called == ["clock"], f"{job.lines[-1]} calls {run.called}, must call clock alone")
    job.unchanged(before)


# --- the errors themselves --------------------------------------------------------------------------------------------


def test_the_four_errors_are_apart(queue: QueueGuard) -> None:
    errors = {name: getattr(queue.worker, name) for name in ("Conflict", "Retryable", "Permanent", "BadAck")}
    for name, error in errors.items():
        queue.expect(issubclass(error, Exception), f"worker.{name} must be a subclass of Exception")
        for other, kind in errors.items():
            related = other != name and issubclass(error, kind)
            queue.expect(not related, f"worker.{name} must not be a subclass of worker.{other}")
