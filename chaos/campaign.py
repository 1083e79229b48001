"""Many kills by several processes, until their number or the time is reached, or one of them shows a violation."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final, Literal, cast

from chaos.killer import Child, running, tell
from chaos.kills import BadInput
from chaos.runner import GRACE_S, Task
from model import scratch
from model.runs import Identity, changes, identities

IMPORT_S: Final = 30.0
TICK_S: Final = 0.2
INTERRUPTED: Final = "interrupted"
ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM or a closed terminal."""


def processors() -> list[int]:
    """Those that this process may use, by number."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """Which kills, of modules by kind: those of ``seed`` from round ``first`` on, among the experiments ``names``."""

    modules: dict[str, Path]
    seed: int
    names: Sequence[str]
    jobs: int
    first: int = 0
    kills: int | None = None
    minutes: float | None = None

    @property
    def judged(self) -> str:
        return ", ".join(map(str, self.modules.values()))

    def task(self, job: int, folder: Path) -> Task:
        """Where there are as many jobs as processors, each job and all that it forks keeps to one of them: a process
        that is woken on another's waits there while its own is idle.
        """
        cpus = processors()
        return Task(
            modules={name: str(path) for name, path in self.modules.items()},
            folder=str(folder / str(job)),
            seed=self.seed,
            names=list(self.names),
            first=self.first,
            job=job,
            jobs=self.jobs,
            cpu=cpus[job] if self.jobs == len(cpus) else None,
            kills=self.kills,
            seconds=None if self.minutes is None else 60 * self.minutes,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What one kill showed, or why it showed nothing."""

    number: int
    token: str
    line: str
    program: tuple[str, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What has been done and seen so far. ``digest`` is the same for the same kills, in whatever order."""

    kinds: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    digest: int = 0
    seconds: float = 0.0
    violations: list[Found] = field(default_factory=list)
    unanswered: list[Found] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)
    stopped: str = ""
    judged: dict[str, Identity] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        return self.kinds.total()

    @property
    def violation(self) -> Found | None:
        """The first by number: other processes may have been ahead."""
        return min(self.violations, key=lambda found: found.number, default=None)

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        if self.violations:
            return "invalid"
        return "unknown" if self.unanswered or self.stopped or not self.kills else "valid"


def carry_out(plan: Plan, progress: Callable[[Outcome], object]) -> Outcome:
    """Do what is planned; BadInput if a file cannot be judged. Whatever ends this process, nothing is left of it."""
    outcome = Outcome(stopped=INTERRUPTED, judged=identities(plan.modules))
    with contextlib.suppress(Interrupted), endings(), contextlib.ExitStack() as stack:
        folder = scratch.make()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _Team(plan, outcome, stack, folder).work(progress)
        outcome.stopped = "; ".join(filter(None, [outcome.stopped, *changes(outcome.judged)]))
    return outcome


@contextlib.contextmanager
def endings() -> Iterator[None]:
    """Whatever asks this process to end raises Interrupted, once."""

    def interrupt(_: int, __: FrameType | None) -> None:
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        raise Interrupted

    heeded = [ending for ending in ENDINGS if signal.getsignal(ending) != signal.SIG_IGN]
    before = {ending: signal.signal(ending, interrupt) for ending in heeded}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


class _Team:
    """The processes that kill, what they say, and what it adds up to."""

    def __init__(self, plan: Plan, outcome: Outcome, stack: contextlib.ExitStack, folder: Path) -> None:
        self.plan = plan
        self.outcome = outcome
        self.started = time.monotonic()
        self.unready: set[int] = set(range(plan.jobs))
        self.half_said = [b""] * plan.jobs
        self.lost = False
        self.runners: list[Child] = []
        for _ in range(plan.jobs):
            self.runners.append(stack.enter_context(running("chaos.runner")))
        stack.callback(self._dismiss)  # before they are killed
        for job, runner in enumerate(self.runners):
            tell(runner, json.dumps(asdict(plan.task(job, folder))).encode() + b"\n")

    def work(self, progress: Callable[[Outcome], object]) -> None:
        with selectors.DefaultSelector() as selector:
            for job, runner in enumerate(self.runners):
                selector.register(runner.words, selectors.EVENT_READ, job)
            while selector.get_map():
                for key, _ in selector.select(TICK_S):
                    if not self._hear(key.data):
                        selector.unregister(key.fileobj)
                self.outcome.seconds = time.monotonic() - self.started
                if self.unready and self.outcome.seconds > IMPORT_S:
                    raise BadInput(f"{self.plan.judged}: does not import: still busy after {IMPORT_S:g} s")
                progress(self.outcome)
        if not self.lost:
            self.outcome.stopped = ""

    def _hear(self, job: int) -> bool:
        """All that it has said by now; whether there may be more. A ``readline`` would read each byte by itself."""
        part = os.read(self.runners[job].words.fileno(), 65536)
        if not part:
            self._lost(job)
            return False
        *lines, self.half_said[job] = (self.half_said[job] + part).split(b"\n")
        return all(self._heed(job, line) for line in lines)

    def _heed(self, job: int, line: bytes) -> bool:
        """One word; whether there may be more."""
        word: dict[str, Any] = json.loads(line)
        outcome = self.outcome
        match word:
            case {"ready": True}:
                self.unready.discard(job)
                self.started = time.monotonic()
            case {"problem": str(problem)}:
                raise BadInput(problem)
            case {"note": str(note)}:
                outcome.notes.add(note)
            case {"name": str(name), "kind": str(kind), "fingerprint": int(number)}:
                outcome.kinds[kind] += 1
                outcome.names[name] += 1
                outcome.digest = (outcome.digest + number) % 2**64
            case {"found": what, **rest}:
                self._found(what, Found(**rest))
            case {"done": True}:
                return False
            case _:
                self._lost(job)
                return False
        return True

    def _found(self, what: str, found: Found) -> None:
        """What was seen is seen; the others go on up to this number, so that the first is known to be the first."""
        list_ = self.outcome.violations if what == "violation" else self.outcome.unanswered
        list_.append(found)
        for runner in self.runners:
            tell(runner, b"%d\n" % found.number)

    def _lost(self, job: int) -> None:
        runner = self.runners[job]
        status, last = runner.status(), runner.last_error()
        if job in self.unready and not self.outcome.kills:
            raise BadInput(f"{self.plan.judged}: does not import: it ends the process{last and f': {last}'}")
        self.lost = True
        self.outcome.stopped = f"a process that kills ended itself, with status {status}{last and f': {last}'}"
        for other in self.runners:
            tell(other, b"0\n")

    def _dismiss(self) -> None:
        """Let each tidy up behind itself, for a while."""
        for runner in self.runners:
            cast("IO[bytes]", runner.process.stdin).close()
        end = time.monotonic() + GRACE_S
        for runner in self.runners:
            with contextlib.suppress(subprocess.TimeoutExpired):
                runner.process.wait(max(0.0, end - time.monotonic()))
