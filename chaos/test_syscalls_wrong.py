"""What the layer "syscalls" says of wrong modules of both kinds, and whether its programs show it again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from chaos.files import Files, look
from chaos.killer import ROOT, Unanswered
from chaos.syscalls import QUEUE_CASES, STORE_CASES, check
from chaos.traced import judged
from chaos.tracer import EIO_READING, Tracer, tracing, untraceable
from model.contract import CLIENT, WORKER, Kind
from model.counterexample import Violation

pytestmark = pytest.mark.skipif(bool(untraceable()), reason=untraceable() or "it is there")

CASES = {(kind, case.name): case for kind, cases in ((WORKER, QUEUE_CASES), (CLIENT, STORE_CASES)) for case in cases}
EVERY = 1000


def shipped(kind: Kind) -> Path:
    return ROOT / f"{kind.name}.py"


def traced(wrong: Wrong, module: Path) -> AbstractContextManager[Tracer]:
    """With the fault that shows what is wrong, and a folder of its own."""
    folder = module.parent / "traced"
    folder.mkdir()
    return tracing(wrong.fault, wrong.kind, module, folder)


class Wrong(NamedTuple):
    """What stands after the shipped module, and where what is wrong with it must show, in which words."""

    kind: Kind
    override: str
    case: str
    fault: str
    words: str = ""

    def module(self, folder: Path) -> Path:
        path = folder / "wrong.py"
        path.write_text(f"{shipped(self.kind).read_text()}\nimport signal\n{self.override}\n")
        return path

    def check(self, tracer: Tracer, module: Path, did: Counter[str]) -> None:
        check(CASES[self.kind, self.case], tracer, judged(self.kind, module), EVERY, 1, did)


APART = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    _write(con, lambda: con.execute(_QUARANTINE, {"now_ms": now_ms}) and None)
    return right(con, owner, now_ms, lease_ms, fault)
"""
HIDES = """
def _write(con, body, fault=None, right=_write):
    try:
        return right(con, body, fault)
    except sqlite3.Error:
        con.execute("ROLLBACK")
        raise
"""
STAYS_OPEN = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    try:
        return right(con, owner, now_ms, lease_ms, fault)
    except sqlite3.Error:
        con.execute("BEGIN IMMEDIATE")
        raise
"""
SWALLOWS = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    with contextlib.suppress(sqlite3.OperationalError):
        return right(con, owner, now_ms, lease_ms, fault)
"""
DELETES = """
def open_queue(path, right=open_queue):
    with contextlib.suppress(OSError):
        os.unlink(os.path.abspath(path) + "-journal")
    return right(path)
"""
CURSOR_APART = """
def _apply(con, seq, delta, fault, right=_apply):
    if fresh := right(con, seq, delta, fault):
        con.execute("UPDATE checkpoint SET last = last - 1")
    return fresh

def apply_event(con, seq, delta, fault=None, right=apply_event):
    if fresh := right(con, seq, delta, fault):
        con.execute("UPDATE checkpoint SET last = last + 1")
    return fresh
"""
HIDES_TOO = """
def _write(con, body, right=_write):
    try:
        return right(con, body)
    except sqlite3.Error:
        con.execute("ROLLBACK")
        raise
"""
SAYS_KNOWN = """
def apply_event(con, seq, delta, fault=None, right=apply_event):
    try:
        return right(con, seq, delta, fault)
    except sqlite3.Error:
        return False
"""
ACKS = """
def consume_line(con, data, fault=None, right=consume_line):
    try:
        return right(con, data, fault)
    except sqlite3.Error:
        return b"ACK %d\\n" % parse_line(data)[0]
"""
TABLES_APART = """
def _write(con, body, right=_write):
    return right(con, body) if con.execute("SELECT 1 FROM sqlite_master").fetchall() else _create(con)
"""
CLOSES = """
def apply_event(con, seq, delta, fault=None, right=apply_event):
    try:
        return right(con, seq, delta, fault)
    except sqlite3.Error:
        con.close()
        raise
"""
FORGETS = """
def open_store(path):
    con = sqlite3.connect(path, timeout=1, isolation_level=None)
    _initialise(con)
    return con
"""
OPENS_NOTHING = """
def open_store(path, right=open_store):
    with contextlib.suppress(sqlite3.Error):
        return right(path)
"""
BEGINS_ANEW = """
def open_store(path, right=open_store):
    try:
        return right(path)
    except sqlite3.Error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return right(path)
"""
READS_NOTHING = """
def _row(con, sql, *values, right=_row):
    try:
        return right(con, sql, *values)
    except sqlite3.Error:
        return values and (0,)
"""
BURIAL, CLAIM = "claim that buries two other jobs", "first claim"
WRONG = {
    "quarantine apart": Wrong(
        WORKER, APART, BURIAL, "SIGKILL", " of claim (claim that buries two other jobs): not as before (jobs"
    ),
    "a rollback error hides it": Wrong(
        WORKER, HIDES, CLAIM, "ENOSPC", "raises OperationalError: cannot rollback - no transaction"
    ),
    "a transaction stays open": Wrong(
        WORKER, STAYS_OPEN, CLAIM, "EIO", " and leaves a transaction open on its connection"
    ),
    "the error is swallowed": Wrong(WORKER, SWALLOWS, CLAIM, "EIO", ": returns None, must return {'id': 'a'"),
    "the journal is deleted": Wrong(WORKER, DELETES, "hot journal", "EIO", "(hot journal): "),
    "the cursor apart": Wrong(
        CLIENT, CURSOR_APART, "first event", "SIGKILL", " of apply_event (first event): not as before (checkpoint row"
    ),
    "a rollback error hides that of an event": Wrong(
        CLIENT, HIDES_TOO, "later event", "ENOSPC", "raises OperationalError: cannot rollback - no transaction"
    ),
    "an event counts as known": Wrong(
        CLIENT, SAYS_KNOWN, "later event", "EIO", ": returns False, must return True or raise the error of the disk"
    ),
    "an event is acknowledged all the same": Wrong(
        CLIENT,
        ACKS,
        "line with a later event",
        "EIO",
        ": returns b'ACK 2\\n', but checkpoint row 1: last is 1, must be 2",
    ),
    "the tables apart": Wrong(
        CLIENT, TABLES_APART, "new file", "SIGKILL", "not as before (the schema is TABLE checkpoint, must be empty)"
    ),
    "the connection is closed": Wrong(
        CLIENT, CLOSES, "later event", "EIO", " and closes the connection that it was lent"
    ),
    "a connection stays open": Wrong(CLIENT, FORGETS, "new file", "EIO", " and does not close its connection"),
    "there is no connection": Wrong(
        CLIENT, OPENS_NOTHING, "new file", "EIO", ": returns None, must return a connection or raise"
    ),
    "a store is begun anew": Wrong(
        CLIENT,
        BEGINS_ANEW,
        "store with events",
        EIO_READING,
        ": returns a connection, but checkpoint row 1: last is -1",
    ),
    "what cannot be read is made up": Wrong(
        CLIENT, READS_NOTHING, "event that is known", EIO_READING, ": raises Conflict, must raise the sqlite3 error"
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_module_is_told_why(wrong: Wrong, tmp_path: Path, did: Counter[str]) -> None:
    module = wrong.module(tmp_path)
    with traced(wrong, module) as tracer, pytest.raises(Violation) as caught:
        wrong.check(tracer, module, did)
    assert caught.value.difference.startswith(f"after {wrong.fault} at the ")
    assert wrong.words in caught.value.difference
    assert not tracer.busy


FIRST_CALL = {
    WORKER: "claim(con, owner, now_ms, lease_ms=1000, fault=None)",
    CLIENT: "consume_line(con, data, fault=None)",
}
ENDS = {
    "os._exit(3)": "the process ended before its answer, with status 3",
    "os.kill(os.getpid(), signal.SIGALRM)": "the operation has not come to an end",
}


@pytest.mark.parametrize(("kind", "case"), [(WORKER, CLAIM), (CLIENT, "line with a later event")])
@pytest.mark.parametrize(("body", "why"), ENDS.items())
def test_a_module_that_ends_its_process_is_no_answer(
    body: str, why: str, kind: Kind, case: str, tmp_path: Path, did: Counter[str]
) -> None:
    wrong = Wrong(kind, f"def {FIRST_CALL[kind]}:\n    {body}", case, "EIO")
    module = wrong.module(tmp_path)
    with traced(wrong, module) as tracer:
        with pytest.raises(Unanswered, match=why):
            wrong.check(tracer, shipped(kind), did)  # it would end this process, too
        wrong._replace(case="new file").check(tracer, shipped(kind), did)  # strace serves on


SHOWN = (
    "quarantine apart",
    "a rollback error hides it",
    "the error is swallowed",
    "the journal is deleted",
    "the cursor apart",
    "an event is acknowledged all the same",
    "the tables apart",
    "what cannot be read is made up",
)


@pytest.mark.parametrize("name", SHOWN)
def test_the_program_of_a_violation_shows_it_again(name: str, tmp_path: Path, did: Counter[str]) -> None:
    wrong = WRONG[name]
    module, kind = wrong.module(tmp_path), wrong.kind
    with traced(wrong, module) as tracer, pytest.raises(Violation) as caught:
        wrong.check(tracer, module, did)
    (tmp_path / f"{kind.name}.py").write_text(module.read_text())
    statuses = [run(command, lines, tmp_path) for command, lines in processes(caught.value.program)]
    assert statuses[1] == (137 if wrong.fault == "SIGKILL" else 0), statuses
    on = judged(kind, module)(tracer.path)
    there, again = (
        look(on, Files.of(folder / kind.file).put(tmp_path / "seen" / kind.file))
        for folder in (tracer.folder, tmp_path)
    )
    assert there == again


def processes(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each command of a program, and the source to feed into it."""
    text = "\n".join(["# then, in a process of its own: python", *lines])
    for part in text.split("# then, in a process of its own: ")[1:]:
        command, _, source = part.partition("\n")
        yield command, source


def run(command: str, source: str, folder: Path) -> int:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S602 - our own program
        command, shell=True, input=source, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
