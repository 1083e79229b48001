"""The layer "stateful", once more: what Hypothesis has found on this machine, or on one that shares it, comes first."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from model.counterexample import Violation
from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests import unfair
from stateful_tests.examples import Examples, blob_of
from stateful_tests.lockstep import Transcript
from stateful_tests.machine import QueueMachine, machine_for
from stateful_tests.position import Position
from stateful_tests.search import run_saved
from stateful_tests.stream_machine import StoreMachine

first = pytest.mark.layer("stateful", first=True)


@contextlib.contextmanager
def leading_to(position: Position) -> Iterator[None]:
    """The token of what fails leads to its example: no other machine need have it."""
    try:
        yield
    except Violation as violation:
        position.reached = blob_of(violation)
        raise


@first
def test_saved_programs_agree_with_the_model(
    worker: Worker,
    tmp_path: Path,
    did: Counter[str],
    seed: int,
    examples: Examples,
    position: Position,
) -> None:
    machine = machine_for(QueueMachine, partial(Queue, worker), tmp_path, did, Transcript())
    with leading_to(position):
        run_saved(machine, seed, examples.saved, position.wanted)


@first
def test_saved_programs_of_the_stream_agree_with_the_model(
    client: Client,
    tmp_path: Path,
    did: Counter[str],
    seed: int,
    examples: Examples,
    position: Position,
) -> None:
    machine = machine_for(StoreMachine, partial(Store, client), tmp_path, did, Transcript())
    with leading_to(position):
        run_saved(machine, seed, examples.saved, position.wanted)


@first
def test_saved_sessions_agree_with_the_model(
    client: Client,
    tmp_path: Path,
    did: Counter[str],
    seed: int,
    examples: Examples,
    position: Position,
) -> None:
    with leading_to(position):
        unfair.run_saved(client, tmp_path, did, seed, examples.saved, position.wanted)
