"""Storm after storm, over queue and store by turns, until number or time is reached, or one shows a violation."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, cast

from chaos.campaign import IMPORT_S, INTERRUPTED, TICK_S, Found, Interrupted, endings
from chaos.killer import Child, running, tell
from chaos.kills import BadInput
from chaos.runner import GRACE_S
from chaos.storms_child import Task
from model import scratch
from model.runs import Identity, changes, identities


@dataclass(frozen=True, slots=True)
class Plan:
    """Which storms, over modules by kind: those of ``seed``, ``seed + 1`` and so on; ``storms`` are so many of each."""

    modules: dict[str, Path]
    seed: int
    storms: int | None = None
    minutes: float | None = None

    @property
    def judged(self) -> str:
        return ", ".join(map(str, self.modules.values()))

    def task(self, folder: Path) -> Task:
        modules = {kind: str(path) for kind, path in self.modules.items()}
        seconds = None if self.minutes is None else 60 * self.minutes
        return Task(modules, str(folder), self.seed, self.storms, seconds)


@dataclass(slots=True)
class Outcome:
    """What has been done and seen so far: by kind, the storms that have ended, however, and what happened in them.

    ``timelines`` are those of the last storm of each kind.
    """

    ended: Counter[str] = field(default_factory=Counter)
    did: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: float = 0.0
    violation: Found | None = None
    unanswered: list[Found] = field(default_factory=list)
    stopped: str = ""
    judged: dict[str, Identity] = field(default_factory=dict)
    timelines: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def storms(self) -> int:
        return self.ended.total()

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        if self.violation:
            return "invalid"
        return "unknown" if self.unanswered or self.stopped or not self.storms else "valid"


def carry_out(plan: Plan, progress: Callable[[Outcome], object]) -> Outcome:
    """Do what is planned; BadInput if a file cannot be judged. Whatever ends this process, nothing is left of it."""
    outcome = Outcome(stopped=INTERRUPTED, judged=identities(plan.modules))
    with contextlib.suppress(Interrupted), endings(), contextlib.ExitStack() as stack:
        folder = scratch.make()
        stack.callback(_remove, folder)
        child = stack.enter_context(running("chaos.storms_child"))
        stack.callback(_dismiss, child)
        tell(child, json.dumps(asdict(plan.task(folder))).encode() + b"\n")
        _Watch(plan, outcome, child).until_done(progress)
        outcome.stopped = "; ".join(filter(None, [outcome.stopped, *changes(outcome.judged)]))
    return outcome


def _dismiss(child: Child) -> None:
    """Let it end its processes and tidy up behind itself, for a while."""
    cast("IO[bytes]", child.process.stdin).close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(GRACE_S)


def _remove(folder: Path) -> None:
    """Until it is gone: a process whose parent was killed may write into it for as long as it has not noticed."""
    end = time.monotonic() + GRACE_S
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)


class _Watch:
    """The process that lets storms come, what it says, and what it adds up to."""

    def __init__(self, plan: Plan, outcome: Outcome, child: Child) -> None:
        self.plan, self.outcome, self.child = plan, outcome, child
        self.ready = False
        self.started = time.monotonic()

    def until_done(self, progress: Callable[[Outcome], object]) -> None:
        while not select.select([self.child.words], [], [], TICK_S)[0] or self._hear():
            self.outcome.seconds = time.monotonic() - self.started
            if not self.ready and self.outcome.seconds > IMPORT_S:
                raise BadInput(f"{self.plan.judged}: does not import: still busy after {IMPORT_S:g} s")
            progress(self.outcome)

    def _hear(self) -> bool:
        """One word; whether there may be more."""
        line = self.child.words.readline()
        word: list[Any] = json.loads(line) if line.endswith(b"\n") else []
        outcome = self.outcome
        match word:
            case ["ready"]:
                self.ready, self.started = True, time.monotonic()
            case ["problem", str(problem)]:
                raise BadInput(problem)
            case ["storm", str(kind), dict(did)]:
                outcome.ended[kind] += 1
                outcome.did[kind].update(did)
            case ["violation", *rest]:
                outcome.violation = _found(*rest)
            case ["unanswered", *rest]:
                outcome.unanswered.append(_found(*rest))
            case ["timeline", str(kind), dict(timeline)]:
                outcome.timelines[kind] = timeline
            case ["done"]:
                outcome.stopped = ""
                return False
            case _:
                self._lost()
                return False
        return True

    def _lost(self) -> None:
        status, last = self.child.status(), self.child.last_error()
        ended = f"with status {status}{last and f': {last}'}"
        if not self.ready:
            raise BadInput(f"{self.plan.judged}: does not import: it ends the process{last and f': {last}'}")
        self.outcome.stopped = f"the process that lets storms come ended itself, {ended}"


def _found(number: int, token: str, line: str, program: list[str]) -> Found:
    return Found(number, token, line, tuple(program))
