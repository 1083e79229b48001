"""What the contract checks share."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model.queue import Queue, Worker
from stateful_tests.clauses import Pair
from stateful_tests.guard import Guard
from stateful_tests.lockstep import Lockstep


@pytest.fixture
def queue(worker: Worker, tmp_path: Path, did: Counter[str]) -> Iterator[Guard]:
    """An empty queue file and the guarded module beside it."""
    with Guard(worker, tmp_path / "queue.db", did) as guard:
        yield guard


@pytest.fixture
def lockstep(worker: Worker, tmp_path: Path, did: Counter[str]) -> Iterator[Callable[[int], Pair]]:
    """Open an empty queue file over so many connections, with the model beside it; closed after the check."""
    with contextlib.ExitStack() as stack:

        def start(connections: int = 1) -> Pair:
            path = tmp_path / f"queue-{len(list(tmp_path.iterdir()))}.db"
            return stack.enter_context(Lockstep(Queue(worker, path), did, connections))

        yield start
