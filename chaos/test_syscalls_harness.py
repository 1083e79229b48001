"""The harness of the layer "syscalls" itself: the trace, the choice, the faults, and what a wrong module is told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Protocol, cast

import psutil
import pytest

from chaos.faulted import Case, prepare
from chaos.files import QUEUE, Files, Left, look
from chaos.killer import ROOT, Unanswered
from chaos.syscalls import CASES, check, chosen
from chaos.tracer import Call, Tracer, faultable, ordinal, read_trace, tracing, untraceable
from model.contract import Claim, State
from model.counterexample import Violation
from model.queue import Queue, load

SHIPPED = ROOT / "worker.py"
NAMED = {case.name: case for case in CASES}
CLAIM = NAMED["first claim"]
BURIAL = NAMED["claim that buries two other jobs"]
HOT_JOURNAL = NAMED["hot journal"]
EVERY = 1000

needs_strace = pytest.mark.skipif(bool(untraceable()), reason=untraceable() or "it is there")


class Trace(Protocol):
    def __call__(self, fault: str, module: Path = SHIPPED) -> Tracer: ...


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    """Start strace with a fault on a module."""
    with contextlib.ExitStack() as stack:

        def start(fault: str, module: Path = SHIPPED) -> Tracer:
            folder = tmp_path / f"traced-{fault}"
            folder.mkdir()
            return stack.enter_context(tracing(fault, module, folder))

        yield start


def put(tracer: Tracer, case: Case) -> None:
    prepare(case, Queue(load(SHIPPED), tracer.queue)).start.put(tracer.folder)


# --- the trace --------------------------------------------------------------------------------------------------------

TRACE = """\
7 openat(AT_FDCWD</x>, "/q/queue.db", O_RDWR|O_CREAT, 0644) = 3</q/queue.db>
7 pwrite64(3</q/queue.db>, ""..., 4096, 0) = 4096
7 openat(AT_FDCWD</x>, "/q/mark", O_RDWR) = 4</q/mark>
7 openat(AT_FDCWD</x>, "/q/queue.db-journal", O_RDWR|O_CREAT, 0644) = 5</q/queue.db-journal>
7 pwrite64(5</q/queue.db-journal>, ""..., 512, 0) = 512
7 fdatasync(6</q> <unfinished ...>
7 <... fdatasync resumed>) = 0
7 pwrite64(3</q/queue.db>, ""..., 4096, 0) = 4096
7 unlink("/q/queue.db-journal") = 0
7 openat(AT_FDCWD</x>, "/q/mark", O_RDWR) = 6</q/mark>
7 pwrite64(3</q/queue.db>, ""..., 4096, 0) = 4096
6 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=0, si_utime=0, si_stime=0} ---
"""


def test_only_what_lies_between_the_marks_counts() -> None:
    assert read_trace(TRACE) == [
        Call("openat", "queue.db-journal", 1, 1, 2, creates=True),
        Call("pwrite64", "queue.db-journal", 1, 1, 1),
        Call("fdatasync", "q", 1, 1, 0),
        Call("pwrite64", "queue.db", 2, 2, 1),
        Call("unlink", "queue.db-journal", 1, 1, 0),
    ]


def test_a_trace_without_its_marks_is_no_answer() -> None:
    with pytest.raises(Unanswered, match="the trace has 1 marks, must have 2"):
        read_trace(TRACE[: TRACE.rindex("7 openat")])


def test_a_file_can_fail_to_be_made() -> None:
    calls = read_trace(TRACE)
    assert faultable(calls, "EIO") == calls
    assert faultable(calls, "SIGKILL") == calls[1:]


@needs_strace
def test_every_call_of_a_claim_is_found(trace: Trace) -> None:
    tracer = trace("EIO")
    put(tracer, CLAIM)
    calls = tracer.calls(CLAIM.op)
    kinds = [(call.syscall, call.file) for call in calls]
    assert kinds[0] == ("openat", "queue.db-journal")
    assert kinds[-1] == ("unlink", "queue.db-journal")
    assert {kind for kind in kinds if kind[0] != "openat"} == {
        *((write, name) for write in ("pwrite64", "fdatasync") for name in ("queue.db", "queue.db-journal")),
        ("fdatasync", tracer.folder.name),
        ("unlink", "queue.db-journal"),
    }


@needs_strace
def test_an_operation_that_changes_nothing_has_no_calls(trace: Trace) -> None:
    tracer = trace("EIO")
    put(tracer, CLAIM)
    assert not faultable(tracer.calls(Claim("not an identifier", 0)), "EIO")


# --- the choice -------------------------------------------------------------------------------------------------------

CALLS = [Call("pwrite64", "queue.db", nth, nth, 0) for nth in range(1, 40)]
CALLS += [Call("fdatasync", "queue.db", 1, 1, 0), Call("unlink", "queue.db-journal", 1, 1, 0)]


def test_a_sample_has_one_of_each_kind() -> None:
    for seed in range(20):
        sample = chosen(CALLS, 5, seed)
        assert len(sample) == 5
        assert sample[-2:] == CALLS[-2:]
        assert sample == sorted(sample, key=CALLS.index) == chosen(CALLS, 5, seed)
    assert len({tuple(chosen(CALLS, 5, seed)) for seed in range(20)}) > 10


def test_a_sample_larger_than_all_is_all() -> None:
    assert chosen(CALLS, EVERY, 1) == CALLS


def test_the_ordinals_are_english() -> None:
    names = "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 111th"
    assert [ordinal(int(name[:-2])) for name in names.split()] == names.split()


# --- the faults -------------------------------------------------------------------------------------------------------


@needs_strace
@pytest.mark.parametrize("fault", ["EIO", "SIGKILL"])
def test_the_fault_is_at_the_very_call(fault: str, trace: Trace) -> None:
    tracer = trace(fault)
    put(tracer, CLAIM)
    start = Files.of(tracer.folder)
    for call in chosen(faultable(tracer.calls(CLAIM.op), fault), 6, 1):
        start.put(tracer.folder)
        answer = tracer.start(CLAIM.op, call)
        tracer.dismiss()
        lines = (tracer.folder / "trace").read_bytes()[tracer.since :].decode().splitlines()
        hit = [line for line in lines if ("= ?" if fault == "SIGKILL" else "(INJECTED)") in line]
        assert len(hit) == 1, lines
        assert f" {call.syscall}(" in hit[0]
        assert call.file in hit[0]
        assert (answer is None) == (fault == "SIGKILL")


@needs_strace
@pytest.mark.parametrize(("fault", "why"), [("SIGKILL", "0 system calls"), ("EIO", "0 system calls")])
def test_a_call_that_does_not_come_is_no_answer(fault: str, why: str, trace: Trace) -> None:
    tracer = trace(fault)
    put(tracer, CLAIM)
    with pytest.raises(Unanswered, match=f"{why} have been faulted, must be 1"):
        tracer.start(CLAIM.op, Call("unlink", "queue.db-journal", 2, 2, 0))


@needs_strace
def test_a_case_without_calls_is_refused(trace: Trace, did: Counter[str]) -> None:
    idle = replace(CLAIM, setup=())
    with pytest.raises(Unanswered, match=r"claim \(first claim\) makes no system call that could be faulted"):
        check(idle, trace("EIO"), load(SHIPPED), EVERY, 1, did)


@needs_strace
def test_all_calls_of_a_case_can_be_faulted(trace: Trace, did: Counter[str]) -> None:
    check(NAMED["new file"], trace("SIGKILL"), load(SHIPPED), EVERY, 1, did)
    assert did["system calls faulted"] == did["in all"] > 10


def test_a_hot_journal_has_to_be_rolled_back(tmp_path: Path) -> None:
    made = prepare(HOT_JOURNAL, Queue(load(SHIPPED), tmp_path / QUEUE))
    assert look(made.start.put(tmp_path)) == made.before == made.after
    assert not (tmp_path / f"{QUEUE}-journal").exists()
    torn = look(Files({QUEUE: made.start[QUEUE]}).put(tmp_path))
    assert torn.differs(made.before)


def test_a_look_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / QUEUE
    assert look(path) == Left()
    path.write_text("a" * 4096)
    assert look(path).differs(Left()) == "another connection cannot read: file is not a database"
    path.unlink()
    with contextlib.closing(load(SHIPPED).open_queue(path)) as con:
        con.execute("BEGIN IMMEDIATE").close()
        assert look(path, writing=True).problem == "another connection cannot write: database is locked"
    assert look(path).rows == State()
    assert look(path).differs(Left()).startswith("the schema is TABLE jobs, ")
    assert look(path).differs(Left()).endswith("TABLE redrives, must be empty")


# --- what a wrong module is told --------------------------------------------------------------------------------------


def module_of(folder: Path, override: str) -> Path:
    """The shipped module with something after it."""
    path = folder / "wrong.py"
    path.write_text(f"{SHIPPED.read_text()}\nimport signal\n{override}\n")
    return path


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
WRONG = {
    "quarantine apart": (APART, BURIAL, "SIGKILL", " of claim (claim that buries two other jobs): not as before (jobs"),
    "a rollback error hides it": (HIDES, CLAIM, "ENOSPC", "raises OperationalError: cannot rollback - no transaction"),
    "a transaction stays open": (STAYS_OPEN, CLAIM, "EIO", " and leaves a transaction open on its connection"),
    "the error is swallowed": (SWALLOWS, CLAIM, "EIO", ": returns None, must return {'id': 'a'"),
    "the journal is deleted": (DELETES, HOT_JOURNAL, "EIO", "(hot journal): "),
}


@needs_strace
@pytest.mark.parametrize(("override", "case", "fault", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_module_is_told_why(
    override: str, case: Case, fault: str, words: str, trace: Trace, tmp_path: Path, did: Counter[str]
) -> None:
    module = module_of(tmp_path, override)
    with pytest.raises(Violation) as caught:
        check(case, trace(fault, module), load(module), EVERY, 1, did)
    assert caught.value.difference.startswith(f"after {fault} at the ")
    assert words in caught.value.difference


@needs_strace
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("os._exit(3)", "the process ended before its answer, with status 3"),
        ("os.kill(os.getpid(), signal.SIGALRM)", "the operation has not come to an end"),
    ],
)
def test_a_module_that_ends_its_process_is_no_answer(
    body: str, why: str, trace: Trace, tmp_path: Path, did: Counter[str]
) -> None:
    module = module_of(tmp_path, f"def claim(con, owner, now_ms, lease_ms=1000, fault=None):\n    {body}")
    tracer = trace("EIO", module)
    with pytest.raises(Unanswered, match=why):
        check(CLAIM, tracer, load(SHIPPED), EVERY, 1, did)
    check(NAMED["enqueue behind another job"], tracer, load(SHIPPED), 1, 1, did)  # strace serves on


@needs_strace
@pytest.mark.parametrize(
    ("override", "case", "fault"),
    [(APART, BURIAL, "SIGKILL"), (HIDES, CLAIM, "ENOSPC"), (SWALLOWS, CLAIM, "EIO"), (DELETES, HOT_JOURNAL, "SIGKILL")],
    ids=["death", "error", "no error", "hot journal"],
)
def test_the_program_of_a_violation_shows_it_again(
    override: str, case: Case, fault: str, trace: Trace, tmp_path: Path, did: Counter[str]
) -> None:
    module = module_of(tmp_path, override)
    tracer = trace(fault, module)
    with pytest.raises(Violation) as caught:
        check(case, tracer, load(module), EVERY, 1, did)
    (tmp_path / "worker.py").write_text(module.read_text())
    statuses = [run(command, lines, tmp_path) for command, lines in processes(caught.value.program)]
    assert statuses[1] == (137 if fault == "SIGKILL" else 0), statuses
    judged, seen = (look(Files.of(folder).put(tmp_path / "seen")) for folder in (tracer.folder, tmp_path))
    assert judged == seen


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


# --- what is left, and what may be missing ----------------------------------------------------------------------------


@needs_strace
def test_nothing_outlives_its_parent(tmp_path: Path) -> None:
    parent = f"""
import sys
from pathlib import Path
from chaos.syscalls import CASES
from chaos.faulted import prepare
from chaos.tracer import tracing
from model.queue import Queue, load
module, folder = Path({str(SHIPPED)!r}), Path({str(tmp_path)!r})
with tracing("EIO", module, folder) as tracer:
    prepare(CASES[0], Queue(load(module), tracer.queue)).start.put(folder)
    tracer.calls(CASES[0].op)
    print(tracer.busy, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", parent], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert cast("IO[str]", process.stdout).readline() == "True\n"
            others = psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()
    assert len(others) == 3, "strace, the server, the child that waits"
    _, alive = psutil.wait_procs(others, timeout=5)
    assert [other for other in alive if other.status() != psutil.STATUS_ZOMBIE] == []


def test_strace_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert untraceable() == "no strace on the PATH"


def test_strace_may_be_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strace = tmp_path / "strace"
    strace.write_text("#!/bin/sh\necho 'strace: ptrace(PTRACE_TRACEME): Operation not permitted' >&2; exit 1\n")
    strace.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert untraceable() == "strace cannot trace: strace: ptrace(PTRACE_TRACEME): Operation not permitted"


def test_a_gate_without_strace_names_the_layer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--gate", "-n0", "-p", "no:cacheprovider", "--results", str(tmp_path)]
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(  # noqa: S603 - our own gate
        [*command, "chaos/test_syscalls.py"],
        cwd=ROOT,
        env={**names, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    assert "\nnot tried here: syscalls: no strace on the PATH\n" in done.stdout
    assert verdict["not_tried"] == ["syscalls: no strace on the PATH"]
    assert {layer["name"]: layer["word"] for layer in verdict["layers"]}["syscalls"] == "not tried"
    assert not [line for line in verdict["unanswered"] if "syscalls" in line]
