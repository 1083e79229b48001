"""The layer "atomicity": a process dies in a fault hook, and what it was doing is lost whole or kept whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos.experiments import EXPERIMENTS, Experiment
from chaos.trial import check
from model.port import Queue, Worker

pytestmark = pytest.mark.layer("atomicity")


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_killed_process_leaves_all_or_nothing(
    experiment: Experiment, worker: Worker, worker_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did)
