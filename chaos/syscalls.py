"""The layer "syscalls": the operations whose system calls are faulted, and which of these calls are chosen.

What a power cut would undo it cannot show: whatever a dead process has written, synced or not, the kernel still has.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from chaos.experiments import SCENES
from chaos.faulted import Trial
from chaos.killer import Unanswered
from chaos.prepared import Case, prepare
from chaos.tracer import Call, Tracer, faultable
from model.contract import Enqueue, Reopen
from model.events import Apply, Consume, event_line
from model.port import Subject

_MANY: Final = tuple(Enqueue(f"{number:02}{'-' * 62}", 1, 0, 50_000) for number in range(16))
_NAMES: Final = (
    "first claim",
    "claim that buries two other jobs",
    "finish as ok",
    "finish for a retry",
    "redrive of a permanent failure",
)
_SCENES: Final = {scene.name: scene for scene in SCENES}

_HOT_QUEUE: Final = (
    "PRAGMA page_size = 512",
    "VACUUM",
    "PRAGMA cache_size = 1",
    "BEGIN IMMEDIATE",
    "UPDATE jobs SET qty = qty + 1",
)
"""On pages so small and with a cache so small that the change is in the file before its COMMIT, which never comes."""

QUEUE_CASES: Final = (
    Case("enqueue behind another job", _MANY[:1], Enqueue("b", 2, 0, 50_000)),
    *(Case(name, _SCENES[name].setup, _SCENES[name].op) for name in _NAMES),
    Case("new file", (), Reopen()),
    Case("hot journal", _MANY, Reopen(), _HOT_QUEUE, hot=True),
)

_EVENTS: Final = (Apply(0, 7), Apply(1, -3))

_HOT_STORE: Final = (
    "PRAGMA cache_size = 1",
    "BEGIN IMMEDIATE",
    "UPDATE checkpoint SET last = 2, total = total + 1",
    "INSERT INTO ledger (seq, delta) VALUES (2, 1)",
)
"""An event, with a cache so small that the first change is in the file before the second one is made."""

STORE_CASES: Final = (
    Case("new file", (), Reopen()),
    Case("store without its checkpoint", (), Reopen(), ("DROP TABLE checkpoint",)),
    Case("hot journal", _EVENTS, Reopen(), _HOT_STORE, hot=True),
    Case("store with events", _EVENTS, Reopen(), idle=True),
    Case("first event", (), Apply(0, 7)),
    Case("later event", _EVENTS, Apply(2, 1000)),
    Case("line with a later event", _EVENTS, Consume(event_line(2, -1000))),
    Case("event that is known", _EVENTS, Apply(0, 7), idle=True),
    Case("line with an event that is known", _EVENTS, Consume(event_line(1, -3)), idle=True),
    Case("event that is known with another delta", _EVENTS, Apply(0, 8), idle=True),
    Case("event before its predecessor", _EVENTS, Apply(3, 0), idle=True),
)


def check(
    case: Case,
    tracer: Tracer,
    judged: Callable[[Path], Subject[Any, Any]],
    most: int,
    seed: int,
    did: Counter[str],
) -> None:
    """Fault the system calls of the case one by one: all of them, or ``most`` of them that ``seed`` chooses.

    ``judged`` is the module under test, at work on the file of a path. Unanswered, or a Violation with the program that
    leads there.
    """
    prepared = prepare(case, judged(tracer.path))
    prepared.start.put(tracer.path)
    every = faultable(tracer.calls(case.op), tracer.fault, idle=case.idle)
    tracer.dismiss()
    if not every and not case.idle:
        raise Unanswered(f"{prepared.function} ({case.name}) makes no system call that could be faulted")
    did.update({"system calls faulted": 0, "in all": len(every)})
    for call in chosen(every, most, seed):
        prepared.start.put(tracer.path)
        Trial(prepared, tracer, call).run()
        did["system calls faulted"] += 1


def chosen(calls: Sequence[Call], most: int, seed: int) -> list[Call]:
    """At most so many of the calls, in their order: one of each kind on each file before a second one of any."""
    drawn = random.Random(seed).sample(calls, len(calls))  # noqa: S311 - a sample, not a secret
    first = {(call.syscall, call.file): call for call in drawn}.values()
    drawn.sort(key=lambda call: call not in first)
    return sorted(drawn[:most], key=calls.index)
