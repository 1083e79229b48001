"""How much the harness does in a second of one core: counts over processor time, so that other work does not count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from model.explorer import explore
from model.invariants import INVARIANTS, LAWS, SOMETIMES
from model.queue import Queue, Worker
from model.scopes import SCOPES
from stateful_tests.replay import nothing_of, replay, world_of

SEARCHED: Final = "two"
REPLAYED: Final = "rescue"


def rates(worker: Worker, folder: Path) -> Iterator[str]:
    """One line a rate; the queue files lie in ``folder``."""
    yield _line("transitions explored", _timed(_without_properties))
    yield _line("transitions explored, every property checked", _timed(_with_properties))
    world_of(REPLAYED)
    yield _line("transitions replayed on the worker", _timed(lambda: _replay(worker, folder)))


def _without_properties() -> int:
    return explore(SCOPES[SEARCHED]).transitions.total()


def _with_properties() -> int:
    return explore(SCOPES[SEARCHED], INVARIANTS, LAWS, SOMETIMES).transitions.total()


def _replay(worker: Worker, folder: Path) -> int:
    world = world_of(REPLAYED)
    covered = nothing_of([world])
    for _ in replay(partial(Queue, worker), folder, world, range(len(world.states)), covered):
        pass
    return sum(done for done, _ in covered.values())


def _timed(work: Callable[[], int]) -> float:
    """How many in a second of processor time."""
    started = time.process_time()
    count = work()
    return count / (time.process_time() - started)


def _line(what: str, per_second: float) -> str:
    return f"{what:<46} {per_second:>12,.0f} a second and core"
