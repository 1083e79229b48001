"""The queue's experiments: each of its operations, and what ``run_once`` does around its send."""

from __future__ import annotations

from typing import ClassVar, Final

from chaos import stages
from chaos.matrix import Experiment, Scene, Void, matrix, replay, statements
from chaos.systems import QUEUE
from model import lease
from model.contract import (
    FAULT_HOOKS,
    Claim,
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


class QueueExperiment(Experiment):
    """In a ``RunOnce`` the ``op`` of the hook says whether it is the change of its claim or of its finish."""

    __slots__ = ()
    system: ClassVar = QUEUE

    @property
    def change(self) -> Plain:
        """The same, or the claim that ``run_once`` starts with."""
        op: Plain | RunOnce = self.op
        return Claim(op.owner, op.first_ms, op.lease_ms) if isinstance(op, RunOnce) else op

    def ends(self, before: State) -> tuple[State, State]:
        claimed, _ = lease.step(before, self.change)
        return (claimed, lease.step(before, self.op)[0]) if self._finishes else (before, claimed)

    def calls(self, before: State) -> list[str]:
        """Around a send: clock readings and the send, then the stage."""
        return _calls_around_send(self.hook) if isinstance(self.op, RunOnce) else Experiment.calls(self, before)

    @property
    def starts(self) -> str:
        return stages.SECOND_CLOCK if self._finishes else ""

    @property
    def _finishes(self) -> bool:
        return isinstance(self.op, RunOnce) and self.hook.op is Finish


_AROUND_SEND: Final = (stages.FIRST_CLOCK, stages.SEND, stages.SECOND_CLOCK)


def _calls_around_send(hook: Hook) -> list[str]:
    if hook.name in _AROUND_SEND:
        return list(_AROUND_SEND[: _AROUND_SEND.index(hook.name) + 1])
    done = 3 if hook.op is Finish else 2 if hook.name == stages.ANSWERED else 1
    return [*_AROUND_SEND[:done], hook.name]


def free_at(state: State, now_ms: int) -> int:
    """The earliest time, not before ``now_ms``, at which no open job has to be waited for."""
    return max([now_ms, *(_due(job) for job in state.jobs if job.status in ("pending", "leased"))])


def _due(job: Job) -> int:
    return job.available_at if job.lease_until is None else job.lease_until


def _ticket(setup: tuple[Plain, ...]) -> Ticket:
    """What the last operation of ``setup``, a claim, hands out."""
    _, reply = lease.step(replay(QUEUE, setup[:-1]), setup[-1])
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

MATRIX: Final = matrix(QueueExperiment, FAULT_HOOKS, SCENES)

ENQUEUES: Final = (
    Scene("first enqueue", (), _JOB),
    Scene("enqueue behind a job", _HELD, Enqueue("b", 7, 5, 50_000, 1)),
    Scene("enqueue behind a dead job", _REFUSED, Enqueue("b", 7, 5, 50_000)),
)
STATEMENTS: Final = matrix(QueueExperiment, statements(Enqueue, Claim, Finish, Redrive), (*ENQUEUES, *SCENES))

_SENDS: Final[dict[Send, str]] = {"ok": "an ok", "retryable": "a retry", "permanent": "a refusal"}


def _run_once(send: Send) -> RunOnce:
    return RunOnce("w", 0, 5, send, lease_ms=50)


IN_SEND: Final = QueueExperiment("run_once in its claim", (_JOB,), _run_once("ok"), Hook(stages.SEND, Claim, kept=True))
RUNS: Final = (
    QueueExperiment(IN_SEND.scene, (_JOB,), _run_once("ok"), Hook(stages.FIRST_CLOCK, Claim, kept=False)),
    *(QueueExperiment(IN_SEND.scene, (_JOB,), _run_once("ok"), stage) for stage in statements(Claim)),
    IN_SEND,
    *(
        QueueExperiment(f"run_once that has {answer}", (_JOB,), _run_once(send), stage)
        for send, answer in _SENDS.items()
        for stage in (
            Hook(stages.ANSWERED, Claim, kept=True),
            Hook(stages.SECOND_CLOCK, Finish, kept=False),
            *statements(Finish),
        )
    ),
)

_MANY: Final = tuple(Enqueue(f"{number:02}{'-' * 62}", 1, 0, 50) for number in range(16))
SPILLED: Final = QueueExperiment(
    "claim that has spilled into the file", (*_MANY, _JOB), Claim("x", 50), hooks_of(_CLAIM)[0], tight=True
)

EXPERIMENTS: Final = (*MATRIX, *STATEMENTS, *RUNS, SPILLED)
