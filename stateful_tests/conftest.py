"""What the contract checks share."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model.diagram import Edge
from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests.clauses import Pair
from stateful_tests.guard import QueueGuard, StoreGuard
from stateful_tests.lockstep import Lockstep
from stateful_tests.picture import EDGES
from stateful_tests.sessions import Sessions
from stateful_tests.stream_clauses import StorePair


@pytest.fixture
def queue(worker: Worker, tmp_path: Path, did: Counter[str]) -> Iterator[QueueGuard]:
    """An empty queue file and the guarded module beside it."""
    with QueueGuard(worker, tmp_path / "queue.db", did) as guard:
        yield guard


@pytest.fixture
def store(client: Client, tmp_path: Path, did: Counter[str]) -> Iterator[StoreGuard]:
    """An empty store file and the guarded module beside it."""
    with StoreGuard(client, tmp_path / "store.db", did) as guard:
        yield guard


@pytest.fixture
def lockstep(worker: Worker, tmp_path: Path, did: Counter[str]) -> Iterator[Callable[[int], Pair]]:
    """Open an empty queue file over so many connections, with the model beside it; closed after the check."""
    with contextlib.ExitStack() as stack:

        def start(connections: int = 1) -> Pair:
            path = tmp_path / f"queue-{len(list(tmp_path.iterdir()))}.db"
            return stack.enter_context(Lockstep(Queue(worker, path), did, connections))

        yield start


@pytest.fixture
def store_lockstep(client: Client, tmp_path: Path, did: Counter[str]) -> Iterator[Callable[[int], StorePair]]:
    """As ``lockstep``, for a store."""
    with contextlib.ExitStack() as stack:

        def start(connections: int = 1) -> StorePair:
            path = tmp_path / f"store-{len(list(tmp_path.iterdir()))}.db"
            return stack.enter_context(Lockstep(Store(client, path), did, connections))

        yield start


@pytest.fixture
def edges(artifacts: Path) -> Iterator[Counter[Edge]]:
    """How often each edge of the status diagram was replayed: put aside for the report."""
    counts: Counter[Edge] = Counter()
    yield counts
    (artifacts / EDGES).write_text(json.dumps([[*edge, count] for edge, count in counts.items()]))


@pytest.fixture
def sessions(client: Client, tmp_path: Path, did: Counter[str]) -> Iterator[Sessions]:
    """A publisher on a real socket, and no store file yet."""
    with Sessions(client, tmp_path / "store.db", did) as playing:
        yield playing


@pytest.fixture
def narrow(client: Client, tmp_path: Path, did: Counter[str]) -> Iterator[Sessions]:
    """As ``sessions``, with buffers that are soon full."""
    with Sessions(client, tmp_path / "store.db", did, narrow=True) as playing:
        yield playing
