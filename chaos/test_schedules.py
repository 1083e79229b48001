"""The layer "schedules": every operation held in each of its hooks, while every other one runs beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from chaos.rivals import QUEUE_SCHEDULES, STREAM_SCHEDULES
from chaos.schedules import Schedule, check
from chaos.stages import BEFORE_BEGIN, BEFORE_SECOND_BEGIN
from model.contract import Hook
from model.queue import Queue, Worker
from model.store import Client, Store

pytestmark = pytest.mark.layer("schedules")


def _checks(schedules: Mapping[Hook, Sequence[Schedule]]) -> Mapping[str, Sequence[Schedule]]:
    """By hook. Few modules reach a second BEGIN, and a check must not do nothing: it goes with the first one."""
    checks: dict[str, list[Schedule]] = {}
    for hook, each in schedules.items():
        name = BEFORE_BEGIN if hook.name == BEFORE_SECOND_BEGIN else hook.name
        checks.setdefault(f"{hook.op.__name__.lower()} in {name}", []).extend(each)
    return checks


QUEUE: Final = _checks(QUEUE_SCHEDULES)
STREAM: Final = _checks(STREAM_SCHEDULES)


@pytest.mark.parametrize("held", QUEUE)
def test_a_rival_is_refused_or_comes_after(held: str, worker: Worker, tmp_path: Path, did: Counter[str]) -> None:
    for number, schedule in enumerate(QUEUE[held]):
        did["schedules"] += check(schedule, Queue(worker, tmp_path / f"{number}.db"))


@pytest.mark.parametrize("held", STREAM)
def test_a_rival_event_is_refused_or_comes_after(held: str, client: Client, tmp_path: Path, did: Counter[str]) -> None:
    for number, schedule in enumerate(STREAM[held]):
        did["schedules"] += check(schedule, Store(client, tmp_path / f"{number}.db"))
