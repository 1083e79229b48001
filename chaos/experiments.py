"""The matrix: every row of the hook table, in every kind of state from which an operation reaches it.

An experiment is data. The model says what must be left: the state before the operation where its change is lost, the
state after it where it is kept. Where the two are the same, nothing could go wrong: such a row is void, and refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

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
    """After ``setup``, the process that performs ``op`` is killed in ``hook``.

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
        """What is done to the queue up to the hook: in its send, ``run_once`` has done no more than a claim."""
        op = self.op
        return Claim(op.owner, op.first_ms, op.lease_ms) if isinstance(op, RunOnce) else op

    def outcomes(self) -> tuple[State, State]:
        """The states that the kill must leave if the change is lost, and if it is kept; Void if it shows nothing."""
        lost = _replay(self.setup)
        kept, _ = lease.step(lost, self.change)
        if lost == kept:
            raise Void(f"{self.name}: lost and kept are the same state")
        if self.hook.name not in self.calls(lost):
            raise Void(f"{self.name}: the hook is listed, but never fired")
        return lost, kept

    def calls(self, before: State) -> list[str]:
        """The hooks that are called until the process stands still, in order."""
        if isinstance(self.op, RunOnce):
            return [SEND.name]
        return [hook.name for hook in lease.hooks_reached(before, Crash(self.op, self.hook.name))]


SEND: Final = Hook("send", Claim, kept=True)
"""Not a fault hook: what ``run_once`` calls between its claim and its finish."""


def matrix(hooks: Iterable[Hook], scenes: Iterable[Scene]) -> tuple[Experiment, ...]:
    """Every hook in every scene of its operation; Void if a hook has none."""
    scenes = tuple(scenes)
    return tuple(experiment for hook in hooks for experiment in _row(hook, scenes))


def _row(hook: Hook, scenes: tuple[Scene, ...]) -> list[Experiment]:
    row = [Experiment(scene.name, scene.setup, scene.op, hook) for scene in scenes if type(scene.op) is hook.op]
    if not row:
        raise Void(f"{hook.name} of {hook.op.__name__}: the hook is listed, but no experiment reaches it")
    return row


def free_at(state: State, now_ms: int) -> int:
    """The earliest time, not before ``now_ms``, at which no open job has to be waited for."""
    return max([now_ms, *(_due(job) for job in state.jobs if job.status in ("pending", "leased"))])


def _due(job: Job) -> int:
    return job.available_at if job.lease_until is None else job.lease_until


def _replay(ops: Iterable[Plain]) -> State:
    state = lease.EMPTY
    for op in ops:
        state, _ = lease.step(state, op)
    return state


def _ticket(setup: tuple[Plain, ...]) -> Ticket:
    """What the last operation of ``setup``, a claim, hands out."""
    _, reply = lease.step(_replay(setup[:-1]), setup[-1])
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

IN_SEND: Final = Experiment("run_once", (_JOB,), RunOnce("w", 0, 5, lease_ms=50), SEND)

_MANY: Final = tuple(Enqueue(f"{number:02}{'-' * 62}", 1, 0, 50) for number in range(16))
SPILLED: Final = Experiment(
    "claim that has spilled into the file", (*_MANY, _JOB), Claim("x", 50), hooks_of(_CLAIM)[0], tight=True
)

EXPERIMENTS: Final = (*MATRIX, IN_SEND, SPILLED)
