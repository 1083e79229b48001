"""The layer "schedules": every operation held in each of its hooks, while every other one runs beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos.schedules import ALL, check
from model.contract import FAULT_HOOKS, Hook
from model.queue import Worker

pytestmark = pytest.mark.layer("schedules")


@pytest.mark.parametrize("hook", FAULT_HOOKS, ids=lambda hook: f"{hook.op.__name__.lower()} in {hook.name}")
def test_a_rival_is_refused_or_comes_after(hook: Hook, worker: Worker, tmp_path: Path, did: Counter[str]) -> None:
    for number, schedule in enumerate(ALL[hook]):
        check(schedule, worker, tmp_path / f"{number}.db")
        did["schedules"] += 1
