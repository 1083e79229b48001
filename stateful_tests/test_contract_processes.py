"""Opening beside other processes: several at the same moment, and one that was killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from model.contract import SCHEMA
from model.port import one_line
from stateful_tests.guard import Guard, writing

pytestmark = pytest.mark.layer("contract")

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 8

OPEN = """\
import sys
sys.path.insert(0, sys.argv[1])
from model.port import one_line
from model.queue import load
worker = load(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
try:
    con = worker.open_queue(sys.argv[3])
    print(con.execute("PRAGMA journal_mode").fetchone()[0])
except Exception as error:
    print(one_line(error))
"""


def test_tables_that_appear_meanwhile_are_kept(queue: Guard) -> None:
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


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process to talk to, killed if it is still there in the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:  # noqa: S603 - our own program
        try:
            yield child
        finally:
            child.kill()


def test_many_processes_open_one_new_file(queue: Guard, worker_path: Path) -> None:
    path = queue.path.with_name("new.db")
    command = [sys.executable, "-I", "-c", OPEN, str(ROOT), str(worker_path), str(path)]
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(started(command)) for _ in range(PROCESSES)]
        for child in children:
            if child.stdout is None or child.stdin is None or child.stdout.readline() != "ready\n":
                raise RuntimeError("a process did not start")
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        answers = [child.communicate()[0].strip() for child in children]
    queue.lines.append(f"# {PROCESSES} processes at once: worker.open_queue('new.db')")
    # The lock may take a busy machine longer than the second that each of them waits.
    wrong = [answer for answer in answers if answer not in ("delete", "OperationalError: database is locked")]
    queue.expect(not wrong, f"{PROCESSES} processes that open one new file answer {wrong[:1]}, must all open it")
    con = queue.open(path)
    tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'")}
    queue.expect(SCHEMA.keys() <= tables, f"{PROCESSES} processes leave the tables {tables}, must leave both")


DIE = """\
import os, signal, sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("PRAGMA cache_size = 5")
con.execute("BEGIN IMMEDIATE")
con.execute("UPDATE jobs SET qty = 999, id = id || hex(zeroblob(20))")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_hot_journal_is_rolled_back(queue: Guard) -> None:
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
