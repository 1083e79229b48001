"""The matrix: every row of the hook table, in every kind of state from which an operation reaches it.

An experiment is data. The model says what must be left: the state before the operation where its change is lost, the
state after it where it is kept. Where the two are the same, nothing could go wrong: such a row is void, and refused.

What has no hook is a row as well: the statements of each operation, and what ``run_once`` does around its send.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos import stages
from chaos.child import Order
from model import lease
from model.contract import (
    FAULT_HOOKS,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Hook,
    Job,
    Plain,
    Redrive,
    Return,
    RunOnce,
    Send,
    State,
    Ticket,
    hooks_of,
)


class Void(Exception):
    """The experiment could not have failed, so that its success would say nothing; one line says why."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The operations that prepare a queue, and the one that then reaches all of its hooks."""

    name: str
    setup: tuple[Plain, ...]
    op: Plain


@dataclass(frozen=True, slots=True)
class Experiment:
    """After ``setup``, the process that performs ``op`` is killed in ``hook``, a fault hook or a stage.

    The ``op`` of the hook says which change is lost or kept: in a ``RunOnce``, that of its claim or of its finish.

    ``tight``: on pages so small and with a cache so small that the change is in the file before its COMMIT. Until the
    next opener has rolled it back nobody can read, so that the module is the first to open the file after the kill.
    """

    scene: str
    setup: tuple[Plain, ...]
    op: Plain | RunOnce
    hook: Hook
    tight: bool = False

    @property
    def name(self) -> str:
        return f"{self.scene}, killed in {self.hook.name}"

    @property
    def change(self) -> Plain:
        """What somebody else would do next in the place of the dead: the same, or the claim that ``run_once`` is."""
        op = self.op
        return Claim(op.owner, op.first_ms, op.lease_ms) if isinstance(op, RunOnce) else op

    def outcomes(self) -> tuple[State, State]:
        """The states that the kill must leave if the change is lost, and if it is kept; Void if it shows nothing."""
        before = replay(self.setup)
        lost, kept = before, lease.step(before, self.change)[0]
        if isinstance(self.op, RunOnce) and self.hook.op is Finish:
            lost, kept = kept, lease.step(before, self.op)[0]
        if lost == kept:
            raise Void(f"{self.name}: lost and kept are the same state")
        if self.hook.name not in self.calls(before):
            raise Void(f"{self.name}: the hook is listed, but never fired")
        return lost, kept

    def calls(self, before: State) -> list[str]:
        """What is called until the process stands still, in order: hooks, or the clock and the send; then the stage."""
        if isinstance(self.op, RunOnce):
            return _calls_around_send(self.hook)
        if self.hook in hooks_of(self.op):
            return [hook.name for hook in lease.hooks_reached(before, Crash(self.op, self.hook.name))]
        return [*_hooks_before(self.hook.name, lease.hooks_reached(before, self.op)), *_if_stage(self.hook)]

    def order(self, module: Path, path: Path) -> Order:
        """What to tell the process that dies."""
        after = stages.SECOND_CLOCK if isinstance(self.op, RunOnce) and self.hook.op is Finish else ""
        return Order(str(module), str(path), repr(self.op), self.hook.name, after, self.tight)


_STATEMENTS: Final = {
    stages.BEFORE_BEGIN: False,
    stages.AFTER_WRITE: False,
    stages.BEFORE_COMMIT: False,
    stages.COMMIT_DONE: True,
}
"""Stages of every operation that changes something, and whether its change is then kept."""

_AROUND_SEND: Final = (stages.FIRST_CLOCK, stages.SEND, stages.SECOND_CLOCK)


def _calls_around_send(hook: Hook) -> list[str]:
    if hook.name in _AROUND_SEND:
        return list(_AROUND_SEND[: _AROUND_SEND.index(hook.name) + 1])
    done = 3 if hook.op is Finish else 2 if hook.name == stages.ANSWERED else 1
    return [*_AROUND_SEND[:done], hook.name]


def _hooks_before(stage: str, hooks: Iterable[Hook]) -> list[str]:
    """The hooks that are called before a statement: none before the first write, before COMMIT all that lose it."""
    early = stage in (stages.BEFORE_BEGIN, stages.AFTER_WRITE)
    return [] if early else [hook.name for hook in hooks if not hook.kept]


def _if_stage(hook: Hook) -> list[str]:
    return [hook.name] if hook.name in _STATEMENTS else []


def matrix(hooks: Iterable[Hook], scenes: Iterable[Scene]) -> tuple[Experiment, ...]:
    """Every hook in every scene of its operation; Void if a hook has none."""
    scenes = tuple(scenes)
    return tuple(experiment for hook in hooks for experiment in _row(hook, scenes))


def _row(hook: Hook, scenes: tuple[Scene, ...]) -> list[Experiment]:
    row = [Experiment(scene.name, scene.setup, scene.op, hook) for scene in scenes if type(scene.op) is hook.op]
    if not row:
        raise Void(f"{hook.name} of {hook.op.__name__}: the hook is listed, but no experiment reaches it")
    return row


def statements(op: type[Plain]) -> tuple[Hook, ...]:
    """The stages of an operation that has changes to make, in the form of hooks."""
    return tuple(Hook(stage, op, kept) for stage, kept in _STATEMENTS.items())


def free_at(state: State, now_ms: int) -> int:
    """The earliest time, not before ``now_ms``, at which no open job has to be waited for."""
    return max([now_ms, *(_due(job) for job in state.jobs if job.status in ("pending", "leased"))])


def _due(job: Job) -> int:
    return job.available_at if job.lease_until is None else job.lease_until


@functools.lru_cache(maxsize=8)
def replay(ops: tuple[Plain, ...]) -> State:
    """What the operations leave of an empty queue."""
    state = lease.EMPTY
    for op in ops:
        state, _ = lease.step(state, op)
    return state


def _ticket(setup: tuple[Plain, ...]) -> Ticket:
    """What the last operation of ``setup``, a claim, hands out."""
    _, reply = lease.step(replay(setup[:-1]), setup[-1])
    if not isinstance(reply, Return) or not isinstance(reply.value, Ticket):
        raise Void(f"{setup[-1]} claims nothing")
    return reply.value


# --- the scenes -------------------------------------------------------------------------------------------------------

_JOB: Final = Enqueue("a", 5, 0, 50_000)
_LAST_TRY: Final = Enqueue("a", 5, 0, 50_000, 1)
_SHORT: Final = Enqueue("a", 5, 0, 60)
_CLAIM: Final = Claim("w", 0, 50)

_HELD: Final = (_JOB, _CLAIM)
_HELD_LAST: Final = (_LAST_TRY, _CLAIM)
_HELD_SHORT: Final = (_SHORT, _CLAIM)

_TO_BURY: Final = (Enqueue("spent", 1, 0, 50_000, 1), _CLAIM, Enqueue("late", 2, 0, 50), _JOB)
_RETRIED: Final = (*_HELD, Finish(_ticket(_HELD), "retry", 5, 20))
_REFUSED: Final = (*_HELD, Finish(_ticket(_HELD), "permanent", 5))
_REDRIVEN: Final = (*_REFUSED, Redrive("a", 10, 50_000, "again"))

SCENES: Final = (
    Scene("first claim", (_JOB,), _CLAIM),
    Scene("claim of the last attempt", (_LAST_TRY,), _CLAIM),
    Scene("claim after the lease ran out", _HELD, Claim("x", 50)),
    Scene("claim that buries two other jobs", _TO_BURY, Claim("x", 50)),
    Scene("claim after a retry", _RETRIED, Claim("x", 25)),
    Scene("claim after a redrive", _REDRIVEN, Claim("x", 10)),
    Scene("finish as ok", _HELD, Finish(_ticket(_HELD), "ok", 5)),
    Scene("finish for a retry", _HELD, Finish(_ticket(_HELD), "retry", 5, 20)),
    Scene("finish for a retry without attempts", _HELD_LAST, Finish(_ticket(_HELD_LAST), "retry", 5, 20)),
    Scene("finish for a retry without time", _HELD_SHORT, Finish(_ticket(_HELD_SHORT), "retry", 5, 55)),
    Scene("finish as permanent", _HELD, Finish(_ticket(_HELD), "permanent", 5)),
    Scene("redrive of a permanent failure", _REFUSED, Redrive("a", 10, 50_000, "again")),
    Scene("redrive of an exhausted job", (*_HELD_LAST, Claim("x", 50)), Redrive("a", 70, 50_000, "again")),
    Scene("redrive of a job past its deadline", (_SHORT, Claim("x", 60)), Redrive("a", 70, 50_000, "again")),
)

MATRIX: Final = matrix(FAULT_HOOKS, SCENES)

ENQUEUES: Final = (
    Scene("first enqueue", (), _JOB),
    Scene("enqueue behind a job", _HELD, Enqueue("b", 7, 5, 50_000, 1)),
    Scene("enqueue behind a dead job", _REFUSED, Enqueue("b", 7, 5, 50_000)),
)
STATEMENTS: Final = matrix(
    (stage for op in (Enqueue, Claim, Finish, Redrive) for stage in statements(op)), (*ENQUEUES, *SCENES)
)

_SENDS: Final[dict[Send, str]] = {"ok": "an ok", "retryable": "a retry", "permanent": "a refusal"}


def _run_once(send: Send) -> RunOnce:
    return RunOnce("w", 0, 5, send, lease_ms=50)


IN_SEND: Final = Experiment("run_once in its claim", (_JOB,), _run_once("ok"), Hook(stages.SEND, Claim, kept=True))
RUNS: Final = (
    Experiment(IN_SEND.scene, (_JOB,), _run_once("ok"), Hook(stages.FIRST_CLOCK, Claim, kept=False)),
    *(Experiment(IN_SEND.scene, (_JOB,), _run_once("ok"), stage) for stage in statements(Claim)),
    IN_SEND,
    *(
        Experiment(f"run_once that has {answer}", (_JOB,), _run_once(send), stage)
        for send, answer in _SENDS.items()
        for stage in (
            Hook(stages.ANSWERED, Claim, kept=True),
            Hook(stages.SECOND_CLOCK, Finish, kept=False),
            *statements(Finish),
        )
    ),
)

_MANY: Final = tuple(Enqueue(f"{number:02}{'-' * 62}", 1, 0, 50) for number in range(16))
SPILLED: Final = Experiment(
    "claim that has spilled into the file", (*_MANY, _JOB), Claim("x", 50), hooks_of(_CLAIM)[0], tight=True
)

EXPERIMENTS: Final = (*MATRIX, *STATEMENTS, *RUNS, SPILLED)
