"""The layer "syscalls": the operations whose system calls are faulted, and which of these calls are chosen.

What a power cut would undo it cannot show: whatever a dead process has written, synced or not, the kernel still has.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from chaos.experiments import SCENES
from chaos.faulted import Case, Trial, prepare
from chaos.killer import Unanswered
from chaos.tracer import Call, Tracer, faultable
from model.contract import Enqueue, Reopen
from model.queue import Queue, Worker

_MANY: Final = tuple(Enqueue(f"{number:02}{'-' * 62}", 1, 0, 50_000) for number in range(16))
_NAMES: Final = (
    "first claim",
    "claim that buries two other jobs",
    "finish as ok",
    "finish for a retry",
    "redrive of a permanent failure",
)
_SCENES: Final = {scene.name: scene for scene in SCENES}

CASES: Final = (
    Case("enqueue behind another job", _MANY[:1], Enqueue("b", 2, 0, 50_000)),
    *(Case(name, _SCENES[name].setup, _SCENES[name].op) for name in _NAMES),
    Case("new file", (), Reopen()),
    Case("hot journal", _MANY, Reopen(), hot=True),
)


def check(case: Case, tracer: Tracer, worker: Worker, most: int, seed: int, did: Counter[str]) -> None:
    """Fault the system calls of the case one by one: all of them, or ``most`` of them that ``seed`` chooses.

    Unanswered, or a Violation with the program that leads there.
    """
    prepared = prepare(case, Queue(worker, tracer.queue))
    prepared.start.put(tracer.folder)
    every = faultable(tracer.calls(case.op), tracer.fault)
    if not every:
        raise Unanswered(f"{case.function} ({case.name}) makes no system call that could be faulted")
    did.update({"system calls faulted": 0, "in all": len(every)})
    for call in chosen(every, most, seed):
        prepared.start.put(tracer.folder)
        Trial(prepared, tracer, call).run()
        did["system calls faulted"] += 1


def chosen(calls: Sequence[Call], most: int, seed: int) -> list[Call]:
    """At most so many of the calls, in their order: one of each kind on each file before a second one of any."""
    drawn = random.Random(seed).sample(calls, len(calls))  # noqa: S311 - a sample, not a secret
    first = {(call.syscall, call.file): call for call in drawn}.values()
    drawn.sort(key=lambda call: call not in first)
    return sorted(drawn[:most], key=calls.index)
