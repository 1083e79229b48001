"""What the contract checks share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.port import Worker
from stateful_tests.guard import Guard


@pytest.fixture
def queue(worker: Worker, tmp_path: Path, did: Counter[str]) -> Iterator[Guard]:
    """An empty queue file and the guarded module beside it."""
    with Guard(worker, tmp_path / "queue.db", did) as guard:
        yield guard
