"""Opening beside other processes: several at the same moment, and one that was killed."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from model.contract import SCHEMA, WORKER, Enqueue
from model.port import fetched, one_line
from stateful_tests.guard import QueueGuard, writing
from stateful_tests.opening import is_locked, open_at_once

pytestmark = pytest.mark.layer("contract")

PROCESSES = 8


def test_tables_that_appear_meanwhile_are_kept(queue: QueueGuard) -> None:
    for number in range(10):
        path = queue.path.with_name(f"new-{number}.db")
        with writing(path, *SCHEMA.values()):
            queue.lines.append(f"# another connection to {path.name!r} has made both tables, and commits in 0.1 s")
            began = time.monotonic()
            con, error = queue.attempt("open_queue", path)
            waited = time.monotonic() - began
        if error is None:
            con.close()
            return
        # As it waits for a second, a lock is an answer only after that.
        late = "locked" in str(error) and waited > 0.9
        queue.expect(
            late, f"{queue.lines[-1]} raises {one_line(error)}, must use the tables that another made meanwhile"
        )
    raise RuntimeError("the writer never let go in time")


def test_many_processes_open_one_new_file(queue: QueueGuard, worker_path: Path) -> None:
    path = queue.path.with_name("new.db")
    answers = open_at_once(PROCESSES, WORKER, worker_path, path)
    queue.lines.append(f"# {PROCESSES} processes at once: worker.open_queue('new.db')")
    # The lock may take a busy machine longer than the second that each of them waits.
    wrong = [answer for answer in answers if answer not in ("delete", "OperationalError: database is locked")]
    queue.expect(not wrong, f"{PROCESSES} processes that open one new file answer {wrong[:1]}, must all open it")
    con = queue.open(path)
    tables = {name for (name,) in fetched(con, "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'")}
    queue.expect(SCHEMA.keys() <= tables, f"{PROCESSES} processes leave the tables {tables}, must leave both")


DIE = """\
import os, signal, sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("PRAGMA cache_size = 5")
con.execute("BEGIN IMMEDIATE")
con.execute("UPDATE jobs SET qty = 999, id = id || hex(zeroblob(20))")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_hot_journal_is_rolled_back(queue: QueueGuard) -> None:
    queue.other.execute("BEGIN").close()
    columns = "id, qty, status, attempts, max_attempts, token, available_at, deadline"
    rows = [(f"j{number:04}", 5, "pending", 0, 3, 0, 0, 50_000) for number in range(4000)]
    queue.other.executemany(f"INSERT INTO jobs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows).close()
    queue.other.execute("COMMIT").close()
    before = queue.rows()
    queue.con.close()
    queue.other.close()
    child = subprocess.run([sys.executable, "-I", "-c", DIE, queue.path], check=False)  # noqa: S603 - our own program
    journal = Path(f"{queue.path}-journal")
    if child.returncode != -signal.SIGKILL or not journal.stat().st_size:
        raise RuntimeError("the kill left no hot journal")
    queue.lines.append("# ... 4000 rows, and a process that is killed while it updates them all")
    ran = queue.call("run_file", queue.path, "w", lambda: 0, lambda _: True, 0.5)
    must = {"id": "j0000", "token": 1, "status": "done"}
    queue.expect(ran == must, f"{queue.lines[-1]} returns {ran!r}, must return {must!r}")
    queue.other = queue.connect()
    queue.expect(queue.rows().jobs[1:] == before.jobs[1:], "a row of the killed process's transaction is still there")


# --- locks ------------------------------------------------------------------------------------------------------------

MEANWHILE: dict[str, Callable[[QueueGuard], object]] = {
    "open_queue": lambda queue: queue.worker.open_queue(queue.path).close(),
    "run_file": lambda queue: queue.worker.run_file(queue.path, "x", lambda: 0, lambda _: True, 0.5),
}


@pytest.mark.parametrize("function", MEANWHILE)
def test_a_call_on_the_same_file_takes_no_lock_away(queue: QueueGuard, function: str) -> None:
    """A process that closes any descriptor of a file loses all POSIX locks that it has on it."""
    queue.do(Enqueue("a", 5, 0, 50_000))
    locked: list[bool] = []

    def fault(hook: str) -> None:
        if hook == "after-claim":
            with contextlib.suppress(sqlite3.OperationalError):
                MEANWHILE[function](queue)
            locked.append(is_locked(queue.path))

    queue.call("claim", queue.con, "w", 0, 100, fault)
    lost = f"{queue.lines[-1]} loses its write lock while its hook after-claim calls {function} on the same file"
    queue.expect(locked == [True], f"{lost}, must keep it")
