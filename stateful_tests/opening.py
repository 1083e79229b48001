"""Other processes at one file: several that open it at the same moment, and one that holds it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from model.contract import Kind

ROOT = Path(__file__).resolve().parent.parent

OPEN = """\
import sys
sys.path.insert(0, sys.argv[1])
from model.contract import KINDS
from model.port import fetched, load, one_line
kind = KINDS[sys.argv[2]]
module = load(sys.argv[3], kind)
print("ready", flush=True)
sys.stdin.readline()
try:
    con = getattr(module, kind.opener)(sys.argv[4])
    print(*fetched(con, "PRAGMA journal_mode")[0])
except Exception as error:
    print(one_line(error))
"""

HOLD = """\
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    con.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.readline()
"""


PROBE = """\
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    con.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError:
    print("locked")
"""


def is_locked(path: Path) -> bool:
    """Whether another process finds the write lock taken: one of this process does not see what it has lost."""
    probe = [sys.executable, "-I", "-c", PROBE, str(path)]
    said = subprocess.run(probe, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()  # noqa: S603 - our own
    return said == "locked"


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process to talk to, killed if it is still there in the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:  # noqa: S603 - our own program
        try:
            yield child
        finally:
            child.kill()


def open_at_once(processes: int, kind: Kind, module: Path, path: Path) -> list[str]:
    """What each of so many processes says of its opening: its journal_mode, or the error."""
    command = [sys.executable, "-I", "-c", OPEN, str(ROOT), kind.name, str(module), str(path)]
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(started(command)) for _ in range(processes)]
        talks = [(child.stdin, child.stdout) for child in children if child.stdin and child.stdout]
        if [out.readline() for _, out in talks] != ["ready\n"] * processes:
            raise RuntimeError("a process did not start")
        for into, _ in talks:
            into.write("\n")
            into.flush()
        return [child.communicate()[0].strip() for child in children]


@contextlib.contextmanager
def held(path: Path, *statements: str) -> Iterator[None]:
    """A process has executed these statements on a connection to the file, and keeps that open.

    A process of its own: SQLite keeps a descriptor open while its own process has a lock on the file elsewhere.
    """
    with started([sys.executable, "-I", "-c", HOLD, str(path), *statements]) as child:
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise RuntimeError("a process did not start")
        yield
