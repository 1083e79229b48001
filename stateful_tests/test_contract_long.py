"""A long queue: of more jobs than any index takes together, the first that is due is claimed, whoever made the file."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from model.contract import SCHEMA, Claim, Job, Return, Ticket
from model.port import connect
from model.queue import Worker
from stateful_tests.files import make
from stateful_tests.guard import QueueGuard

pytestmark = pytest.mark.layer("contract")

COLUMNS = ", ".join(Job._fields)
LONG = 1600


def fill(path: Path, due: set[int], status: str) -> None:
    """Open jobs, of which only these are due, over a connection of the harness."""
    expired = ("leased", 1, 3, 1, 0, 10**9, "x", 0, None) if status == "leased" else None
    ready, later = (("pending", 0, 3, 0, at_ms, 10**9, None, None, None) for at_ms in (0, 10**6))
    rows = [Job(seq, f"j{seq}", 1, *((expired or ready) if seq in due else later)) for seq in range(1, LONG)]
    with contextlib.closing(connect(path)) as con:
        con.execute("BEGIN").close()
        con.executemany(f"INSERT INTO jobs ({COLUMNS}) VALUES ({', '.join('?' * len(Job._fields))})", rows).close()
        con.execute("COMMIT").close()


@pytest.mark.parametrize("status", ["pending", "leased"])
@pytest.mark.parametrize("maker", ["open_queue", "someone else"])
@pytest.mark.parametrize("due", [{5}, {255, 256, 257}, {511, 512, 513}, {600, 1100, 1590}, {1599}], ids=str)
def test_a_long_queue_is_served_in_order(
    worker: Worker, tmp_path: Path, did: Counter[str], maker: str, due: set[int], status: str
) -> None:
    path = tmp_path / "queue.db"
    if maker == "someone else":
        make(path, *SCHEMA.values())
    with QueueGuard(worker, path, did) as queue:
        fill(path, due, status)
        queue.lines.append(f"# {LONG - 1} jobs are put there, of which the rows {sorted(due)} are due, {status}")
        held = int(status == "leased")
        for seq in sorted(due):
            queue.must(Claim("w", 0, 100), Return(Ticket(f"j{seq}", 1, "w", held + 1, held + 1, 100)))
        queue.must(Claim("w", 0, 100), Return(None))
