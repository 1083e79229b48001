"""Two operations, interleaved: A stands in one of its hooks while B runs over another connection.

Before A's COMMIT, B is refused as locked and nothing of it happens. After A's COMMIT, B is ordered after A. Either way
A answers as if it had been alone, unless its hook fails; then what it did is lost or kept as the hook table says.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from chaos.experiments import SCENES, Scene, matrix
from model import lease
from model.contract import (
    FAULT_HOOKS,
    LOCKED,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Hook,
    Plain,
    Redrive,
    Reply,
    Return,
    State,
    Ticket,
)
from model.counterexample import Line, Violation, differences, program, reply_differs, source
from model.port import connect, impatient, one_line, perform
from model.queue import Queue, Worker, observe, ranked

LATER_MS: Final = 100
"""After every lease of a scene, and before the deadline of most of its jobs."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``rival`` runs while ``op`` stands in ``hook``; ``dies``: the hook then raises."""

    scene: Scene
    hook: Hook
    rival: Plain
    dies: bool

    @property
    def name(self) -> str:
        end = ", then dies" if self.dies else ""
        return f"{self.scene.name} stands in {self.hook.name}{end}: {type(self.rival).__name__.lower()}"


def schedules(hook: Hook) -> Iterator[Schedule]:
    """Every scene that reaches the hook, with every rival operation, ended well and badly."""
    for experiment in matrix([hook], SCENES):
        if isinstance(experiment.op, Plain):
            scene = Scene(experiment.scene, experiment.setup, experiment.op)
            for rival in rivals(scene):
                for dies in (False, True):
                    yield Schedule(scene, hook, rival, dies)


def rivals(scene: Scene) -> Iterator[Plain]:
    """The same operation by somebody else, and one of every kind on the same job and on another."""
    now_ms = scene.op.now_ms
    yield scene.op
    yield Claim("rival", now_ms)
    yield Claim("rival", now_ms + LATER_MS)
    yield Enqueue("a", 5, now_ms, 1000)
    yield Enqueue("other", 7, now_ms, 1000)
    yield Redrive("a", now_ms, 1000, "rival")
    for ticket in _tickets(scene):
        yield Finish(ticket, "ok", now_ms)
        yield Finish(ticket, "retry", now_ms, 1)


def _tickets(scene: Scene) -> Iterator[Ticket]:
    """Whatever was ever handed out up to here, and what the operation itself hands out."""
    state = lease.EMPTY
    for op in (*scene.setup, scene.op):
        state, reply = lease.step(state, op)
        if isinstance(reply, Return) and isinstance(reply.value, Ticket):
            yield reply.value


ALL: Final = {hook: tuple(schedules(hook)) for hook in FAULT_HOOKS}


# --- one schedule -----------------------------------------------------------------------------------------------------


def check(schedule: Schedule, worker: Worker, path: Path) -> None:
    """Run one schedule on a new queue file; a Violation with the program if anything differs from the model."""
    stage = _Stage(schedule, Queue(worker, path))
    with stage.open() as first, stage.open() as second, impatient(second):
        stage.prepare(first)
        stage.run(first, second)


@dataclass(slots=True)
class _Stage:
    schedule: Schedule
    queue: Queue
    state: State = lease.EMPTY
    lines: list[Line] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        try:
            con = self.queue.worker.open_queue(self.queue.path)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            self.fail(f"worker.open_queue raises {one_line(error)}")
        with contextlib.closing(con):
            yield con

    def prepare(self, con: sqlite3.Connection) -> None:
        for op in self.schedule.scene.setup:
            self.state, want = lease.step(self.state, op)
            self.expect(op, 1, perform(self.queue, con, op), want)

    def run(self, first: sqlite3.Connection, second: sqlite3.Connection) -> None:
        """A on the first connection, B on the second from inside A's hook; then replies and rows."""
        schedule, said = self.schedule, list[Reply]()

        def watch(hook: str) -> None:
            if hook == schedule.hook.name:
                said.append(perform(self.queue, second, schedule.rival))

        op = Crash(schedule.scene.op, schedule.hook.name) if schedule.dies else schedule.scene.op
        got = perform(self.queue, first, op, watch)
        self.state, want = lease.step(self.state, op)
        self.expect(op, 1, got, want)
        if not said:
            self.fail(f"{source(op)} never called {schedule.hook.name}")
        reply: Reply = LOCKED
        if schedule.hook.kept:
            self.state, reply = lease.step(self.state, schedule.rival)
        self.expect(schedule.rival, 2, said[0], reply)
        if first.in_transaction or second.in_transaction:
            self.fail("a transaction is left open on its connection")
        self.compare()

    def expect(self, op: Plain | Crash[Plain], con: int, got: Reply, want: Reply) -> None:
        self.lines.append(Line(op, con, got))
        if difference := reply_differs(op, got, want):
            self.fail(f"{source(op, f'con{con}')} {difference}")

    def compare(self) -> None:
        try:
            with contextlib.closing(connect(self.queue.path)) as con:
                difference = differences(ranked(observe(con)), self.state)
        except sqlite3.Error as error:
            difference = f"another connection cannot read: {error}"
        if difference:
            self.fail(difference)

    def fail(self, what: str) -> NoReturn:
        hook = self.schedule.hook.name
        text = [*program(self.lines), f"# con2 runs while con1 stands in {hook}"]
        raise Violation(f"while {self.schedule.scene.name} stands in {hook}: {what}", text)
