"""The layer "atomicity": a process dies at a stage of its work, and what it was doing is lost whole or kept whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.experiments import EXPERIMENTS, IN_SEND, MATRIX, SPILLED, STATEMENTS, Experiment
from chaos.forks import Server
from chaos.openings import OPENINGS, Opening, check_opening
from chaos.trial import check
from model.queue import Queue, Worker

pytestmark = pytest.mark.layer("atomicity")

FRESH = (MATRIX[0], MATRIX[-1], STATEMENTS[0], IN_SEND, SPILLED)
"""Beside the forked ones: a fork might share something with its server that a process of its own would not have."""


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_killed_process_leaves_all_or_nothing(
    experiment: Experiment,
    worker: Worker,
    worker_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Callable[[], Server | None],
) -> None:
    check(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did, forkserver())


@pytest.mark.parametrize("experiment", OPENINGS, ids=lambda experiment: experiment.name)
def test_a_process_killed_while_opening_leaves_all_or_nothing(
    experiment: Opening,
    worker: Worker,
    worker_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Callable[[], Server | None],
) -> None:
    check_opening(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did, forkserver())


@pytest.mark.parametrize("experiment", FRESH, ids=lambda experiment: experiment.name)
def test_a_killed_interpreter_leaves_all_or_nothing(
    experiment: Experiment, worker: Worker, worker_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did)


def test_an_interpreter_killed_while_opening_leaves_all_or_nothing(
    worker: Worker, worker_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check_opening(OPENINGS[0], Queue(worker, tmp_path / "queue.db"), worker_path, did)
