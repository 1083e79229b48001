"""The layer "atomicity": a process dies at a stage of its work, and what it was doing is lost whole or kept whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos import stream_experiments
from chaos.experiments import EXPERIMENTS, IN_SEND, MATRIX, SPILLED, STATEMENTS
from chaos.forks import Forkserver
from chaos.matrix import Experiment
from chaos.openings import OPENINGS, STORE_OPENINGS, Opening, check_opening
from chaos.trial import check
from model.contract import CLIENT, WORKER
from model.queue import Queue, Worker
from model.store import Client, Store

pytestmark = pytest.mark.layer("atomicity")

FRESH = (MATRIX[0], MATRIX[-1], STATEMENTS[0], IN_SEND, SPILLED)
"""Beside the forked ones: a fork might share something with its server that a process of its own would not have."""
FRESH_STREAM = (stream_experiments.MATRIX[0], stream_experiments.MATRIX[-1], stream_experiments.SPILLED[0])


def _name(experiment: Experiment | Opening) -> str:
    return experiment.name


# --- the queue --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=_name)
def test_a_killed_process_leaves_all_or_nothing(
    experiment: Experiment,
    worker: Worker,
    worker_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Forkserver,
) -> None:
    check(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did, forkserver(WORKER, worker_path))


@pytest.mark.parametrize("experiment", OPENINGS, ids=_name)
def test_a_process_killed_while_opening_leaves_all_or_nothing(
    experiment: Opening,
    worker: Worker,
    worker_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Forkserver,
) -> None:
    check_opening(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did, forkserver(WORKER, worker_path))


@pytest.mark.parametrize("experiment", FRESH, ids=_name)
def test_a_killed_interpreter_leaves_all_or_nothing(
    experiment: Experiment, worker: Worker, worker_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check(experiment, Queue(worker, tmp_path / "queue.db"), worker_path, did)


def test_an_interpreter_killed_while_opening_leaves_all_or_nothing(
    worker: Worker, worker_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check_opening(OPENINGS[0], Queue(worker, tmp_path / "queue.db"), worker_path, did)


# --- the stream -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("experiment", stream_experiments.EXPERIMENTS, ids=_name)
def test_a_killed_receiver_leaves_all_or_nothing(
    experiment: Experiment,
    client: Client,
    client_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Forkserver,
) -> None:
    check(experiment, Store(client, tmp_path / "store.db"), client_path, did, forkserver(CLIENT, client_path))


@pytest.mark.parametrize("experiment", STORE_OPENINGS, ids=_name)
def test_a_receiver_killed_while_opening_leaves_all_or_nothing(
    experiment: Opening,
    client: Client,
    client_path: Path,
    tmp_path: Path,
    did: Counter[str],
    forkserver: Forkserver,
) -> None:
    check_opening(experiment, Store(client, tmp_path / "store.db"), client_path, did, forkserver(CLIENT, client_path))


@pytest.mark.parametrize("experiment", FRESH_STREAM, ids=_name)
def test_a_receiver_of_its_own_leaves_all_or_nothing(
    experiment: Experiment, client: Client, client_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check(experiment, Store(client, tmp_path / "store.db"), client_path, did)


def test_a_receiver_of_its_own_killed_while_opening_leaves_all_or_nothing(
    client: Client, client_path: Path, tmp_path: Path, did: Counter[str]
) -> None:
    check_opening(STORE_OPENINGS[0], Store(client, tmp_path / "store.db"), client_path, did)
