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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Final

from chaos.killer import Unanswered
from chaos.runner import HURRY_S, folder
from chaos.storm import check
from chaos.weather import Weather
from chaos.wire import Say, mouth
from model.counterexample import Violation
from model.port import Unfit
from model.queue import Queue, Worker, load

LIMIT_S: Final = 120.0
"""A storm takes a few seconds; one that a queue keeps alive for ever is judged by what it has shown until then."""

OWNERS: Final = (("w", "x"), ("w",))


@dataclass(frozen=True, slots=True)
class Task:
    """So many storms, or those that begin within so many seconds: number ``n`` has the seed ``seed + n``."""

    worker: str
    folder: str
    seed: int
    storms: int | None
    seconds: float | None
    limit_s: float = LIMIT_S


def weather(seed: int) -> Weather:
    """Two owners or one, by turns: the seed alone says which, so that it repeats the storm that it belongs to."""
    return Weather(owners=OWNERS[seed % len(OWNERS)])


def storms(task: Task, worker: Worker, say: Say) -> None:
    """One after the other, up to the first violation."""
    started = time.monotonic()
    for number in itertools.count():
        late = task.seconds is not None and time.monotonic() - started > task.seconds
        if late or number == task.storms or not _goes_on(task, number, worker, say):
            break
    say("done")


def _goes_on(task: Task, number: int, worker: Worker, say: Say) -> bool:
    """One storm; whether another one may follow."""
    seed, did = task.seed + number, Counter[str]()
    try:
        with folder(Path(task.folder) / f"{number}") as path, _within(task.limit_s):
            check(weather(seed), Queue(worker, path / "queue.db"), Path(task.worker), seed, did)
    except Violation as violation:
        say("storm", did)
        say("violation", number, str(seed), violation.difference, list(violation.program))
        return False
    except Unanswered as problem:
        say("unanswered", number, str(seed), str(problem), [])
    say("storm", did)
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
        worker = load(task.worker)
        say("ready")
        storms(task, worker, say)
    except Unfit as problem:
        say("problem", str(problem))
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # nobody waits for an answer
    finally:
        shutil.rmtree(task.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
