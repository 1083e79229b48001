"""One process that kills others: ``python -m chaos.runner``, started by ``python -m chaos``, one of several.

Its task is one line of JSON on stdin; what it has done, a line of JSON a kill on stdout. A number on a further line of
stdin is the first kill that need not be done any more. When stdin closes it ends, and takes along what it has made.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from chaos.forks import Unsafe, serving
from chaos.killer import Unanswered
from chaos.kills import DEATHS, Place, Turn, carry_out, fingerprint, kind, kind_of, turns
from chaos.systems import SYSTEMS, System
from model.counterexample import Violation
from model.port import Unfit

PAUSE_S: Final = 0.1
"""How long what has been done may stay unsaid."""
HURRY_S: Final = 2.0
GRACE_S: Final = 3 * HURRY_S
"""How long it may take until nothing is left."""


@dataclass(frozen=True, slots=True)
class Task:
    """Which kills: those of ``names`` from round ``first`` on, up to the number ``kills`` or for ``seconds``.

    ``modules`` are paths by kind. Of ``jobs`` processes that have the same task, this one does every ``jobs``-th scene,
    ``job`` the first, and keeps to the processor ``cpu``, if one is given.
    """

    modules: dict[str, str]
    folder: str
    seed: int
    names: list[str]
    first: int
    job: int
    jobs: int
    cpu: int | None
    kills: int | None
    seconds: float | None


class Runner:
    """The task, and the first kill that need not be done: it may come down while the others are done."""

    def __init__(self, task: Task, words: int) -> None:
        self.task = task
        self.words = words
        self.unsaid = b""
        self.said_at = 0.0
        self.orphaned = False
        self.until: float = float("inf") if task.kills is None else task.kills

    def say(self, **word: Any) -> None:  # noqa: ANN401 - JSON
        """Now, behind what was to be said soon."""
        self.unsaid += json.dumps(word).encode() + b"\n"
        os.write(self.words, self.unsaid)
        self.unsaid, self.said_at = b"", time.monotonic()

    def say_soon(self, **word: Any) -> None:  # noqa: ANN401 - JSON
        """With others: to hear each by itself costs time that kills could have."""
        if time.monotonic() > self.said_at + PAUSE_S:
            self.say(**word)
        else:
            self.unsaid += json.dumps(word).encode() + b"\n"

    def listen(self, orders: IO[bytes]) -> None:
        """Obey what stdin says; when it closes, this kill is the last: interrupted if it takes long, and then cut."""
        while line := orders.readline():
            self.until = min(self.until, int(line))
        self.orphaned, self.until = True, 0
        time.sleep(HURRY_S)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(HURRY_S)
        self.tidy()
        os._exit(1)

    def tidy(self) -> None:
        """Leave nothing in the common folder; the last one takes it along."""
        shutil.rmtree(self.task.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            Path(self.task.folder).parent.rmdir()

    def load(self) -> dict[str, object]:
        """The modules by kind; Unfit if one is none."""
        return {name: SYSTEMS[name].load(path) for name, path in self.task.modules.items()}

    def run(self, modules: dict[str, object]) -> None:
        Path(self.task.folder).parent.mkdir(exist_ok=True)  # another, asked to end at once, may have taken it along
        with folder(Path(self.task.folder)) as path, contextlib.ExitStack() as stack:
            places = {name: self._place(SYSTEMS[name], module, path, stack) for name, module in modules.items()}
            started = time.monotonic()
            for turn in turns(self.task.seed, self.task.names, self.task.first):
                late = self.task.seconds is not None and time.monotonic() - started > self.task.seconds
                if late or turn.number >= self.until:
                    break
                if turn.group % self.task.jobs != self.task.job:
                    continue
                if not self._kill(turn, places[kind_of(DEATHS[turn.kill.name]).name]):
                    break
                for file in path.iterdir():
                    file.unlink()
        self.say(done=True)

    def _place(self, system: System, module: object, path: Path, stack: contextlib.ExitStack) -> Place:
        """With what forks; without it where the module must not be forked, or where that cannot be found out."""
        file, server = Path(self.task.modules[system.kind.name]), None
        try:
            server = stack.enter_context(serving(system.kind, file))
        except (Unsafe, Unanswered) as problem:
            self.say(note=f"fresh interpreters instead of forks: {problem}")
        return Place(system.subject(module, path / system.kind.file), file, server)

    def _kill(self, turn: Turn, place: Place) -> bool:
        death = turn.kill.death()
        try:
            carry_out(death, place)
        except Violation as violation:
            self._found(turn, "violation", violation.difference, list(violation.program))
        except Unanswered as problem:
            self._found(turn, "unanswered", str(problem), [])
        else:
            self.say_soon(name=turn.kill.name, kind=kind(death), fingerprint=fingerprint(turn.kill, death))
            return True
        return False

    def _found(self, turn: Turn, what: str, line: str, program: list[str]) -> None:
        self.say(found=what, number=turn.number, token=str(turn.kill), line=line, program=program)


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder of this runner's own, for as long as the context lasts."""
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Exit status 0; whatever there is to say is said on stdout."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = os.dup(1)
    os.dup2(2, 1)  # what the module prints is not a word
    orders = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - a thread reads it for as long as there is one
    task = Task(**json.loads(orders.readline()))
    if task.cpu is not None:
        os.sched_setaffinity(0, {task.cpu})
    runner = Runner(task, words)
    threading.Thread(target=runner.listen, args=[orders], daemon=True).start()
    try:
        modules = runner.load()
        runner.say(ready=True)
        runner.run(modules)
    except Unfit as problem:
        runner.say(problem=str(problem))
    except KeyboardInterrupt:
        pass  # nobody waits for an answer
    except BrokenPipeError:
        runner.orphaned = True
    finally:
        if runner.orphaned:
            runner.tidy()


if __name__ == "__main__":
    main()
