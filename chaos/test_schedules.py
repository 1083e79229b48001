"""The layer "schedules": every operation held in each of its hooks, while every other one runs beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos.rivals import QUEUE_SCHEDULES, STREAM_SCHEDULES
from chaos.schedules import check
from model.contract import Hook
from model.queue import Queue, Worker
from model.store import Client, Store

pytestmark = pytest.mark.layer("schedules")


def _name(hook: Hook) -> str:
    return f"{hook.op.__name__.lower()} in {hook.name}"


@pytest.mark.parametrize("hook", QUEUE_SCHEDULES, ids=_name)
def test_a_rival_is_refused_or_comes_after(hook: Hook, worker: Worker, tmp_path: Path, did: Counter[str]) -> None:
    for number, schedule in enumerate(QUEUE_SCHEDULES[hook]):
        did["schedules"] += check(schedule, Queue(worker, tmp_path / f"{number}.db"))


@pytest.mark.parametrize("hook", STREAM_SCHEDULES, ids=_name)
def test_a_rival_event_is_refused_or_comes_after(hook: Hook, client: Client, tmp_path: Path, did: Counter[str]) -> None:
    for number, schedule in enumerate(STREAM_SCHEDULES[hook]):
        did["schedules"] += check(schedule, Store(client, tmp_path / f"{number}.db"))
