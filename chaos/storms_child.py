"""The process that lets storms come: ``python -m chaos.storms_child``, started by ``python -m chaos storm``.

Its task is one line of JSON on stdin; its words are lines of JSON on stdout. When stdin closes it ends, even in the
midst of a storm, and takes along what it has made.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

from chaos import storm, stream_storm, stream_weather
from chaos.killer import Unanswered
from chaos.runner import HURRY_S, folder
from chaos.storm import Show
from chaos.systems import SYSTEMS
from chaos.weather import Weather
from chaos.wire import Say, mouth
from model.contract import CLIENT, WORKER
from model.counterexample import Violation
from model.port import Unfit
from model.queue import Queue

LIMIT_S: Final = 120.0
"""A storm takes a few seconds; one that a queue keeps alive for ever is judged by what it has shown until then."""

OWNERS: Final = (("w", "x"), ("w",))


@dataclass(frozen=True, slots=True)
class Task:
    """So many storms of each kind, or those that begin within so many seconds: number ``n`` has the seed ``seed + n``.

    ``modules`` are paths by kind.
    """

    modules: dict[str, str]
    folder: str
    seed: int
    storms: int | None
    seconds: float | None
    limit_s: float = LIMIT_S


def weather(seed: int) -> Weather:
    """Two owners or one, by turns: the seed alone says which, so that it repeats the storm that it belongs to."""
    return Weather(owners=OWNERS[seed % len(OWNERS)])


def _of_workers(module: Any, path: Path, folder: Path, seed: int, did: Counter[str], show: Show) -> None:  # noqa: ANN401
    storm.check(weather(seed), Queue(module, folder / "queue.db"), path, seed, did, show)


def _of_receivers(_: object, path: Path, folder: Path, seed: int, did: Counter[str], show: Show) -> None:
    stream_storm.check(stream_weather.Weather(), folder / "store.db", path, seed, did, show)


_CHECKS: Final[Mapping[str, Callable[[Any, Path, Path, int, Counter[str], Show], None]]] = {
    WORKER.name: _of_workers,
    CLIENT.name: _of_receivers,
}


def storms(task: Task, modules: Mapping[str, object], say: Say) -> None:
    """One after the other, the kinds by turns, to the first violation; and what the last of each kind looked like."""
    started, seen = time.monotonic(), dict[str, dict[str, Any]]()
    numbers = itertools.count() if task.storms is None else range(task.storms)
    for number, kind in ((number, kind) for number in numbers for kind in modules):
        late = task.seconds is not None and time.monotonic() - started > task.seconds
        if late or not _goes_on(task, number, kind, modules[kind], say, seen):
            break
    for kind, timeline in seen.items():
        say("timeline", kind, timeline)
    say("done")


def _goes_on(task: Task, number: int, kind: str, module: object, say: Say, seen: dict[str, dict[str, Any]]) -> bool:
    """One storm; whether another one may follow."""
    seed, did = task.seed + number, Counter[str]()
    token = f"{seed}:{kind}"
    try:
        with folder(Path(task.folder) / f"{number}") as path, _within(task.limit_s):
            _CHECKS[kind](module, Path(task.modules[kind]), path, seed, did, partial(seen.__setitem__, kind))
    except Violation as violation:
        say("storm", kind, did)
        say("violation", number, token, violation.difference, list(violation.program))
        return False
    except Unanswered as problem:
        say("unanswered", number, token, str(problem), [])
    say("storm", kind, did)
    return True


@contextlib.contextmanager
def _within(limit_s: float) -> Iterator[None]:
    """After ``limit_s`` the storm is broken off where it is."""

    def late(_: int, __: FrameType | None) -> None:
        raise Unanswered(f"the storm has not ended after {limit_s:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


# --- the process ------------------------------------------------------------------------------------------------------


def _end_with(orders: IO[bytes], made: str) -> None:
    """Once nobody gives orders any more: an interrupt, and if that does not end this process soon, the end."""
    while orders.read(1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(HURRY_S)
    shutil.rmtree(made, ignore_errors=True)
    os._exit(1)


def main() -> None:
    """Exit status 0; whatever there is to say is said on stdout."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say = mouth()
    orders = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - a thread reads it for as long as there is one
    task = Task(**json.loads(orders.readline()))
    threading.Thread(target=_end_with, args=[orders, task.folder], daemon=True).start()
    try:
        modules = {kind: SYSTEMS[kind].load(path) for kind, path in task.modules.items()}
        say("ready")
        storms(task, modules, say)
    except Unfit as problem:
        say("problem", str(problem))
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # nobody waits for an answer
    finally:
        shutil.rmtree(task.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
