"""Who sits at the queue in a storm: a process that dies between two words does the storm no harm."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import psutil

from chaos.killer import PATIENCE_S
from chaos.seats import Seat, seated
from model.queue import Worker


def test_who_was_struck_asleep_may_be_roused_before_its_death_is_heard(
    worker: Worker, worker_path: Path, tmp_path: Path
) -> None:
    worker.open_queue(tmp_path / "queue.db").close()
    with seated(worker_path, tmp_path, 0) as seats:
        seat = Seat("worker", Random(1), ("w",))  # noqa: S311 - no secret
        seats.start(seat)
        said = []
        while [seat.name, "idle"] not in said:
            said += seats.words(PATIENCE_S)
        (pid,) = (word[2] for word in said if word[1] == "born")
        seats.born(seat, pid)
        process = psutil.Process(pid)
        seats.strike(seat)
        process.wait(PATIENCE_S)
        seats.rouse(seat)
        assert seats.words(PATIENCE_S) == [["", "died", pid, -signal.SIGKILL]]
