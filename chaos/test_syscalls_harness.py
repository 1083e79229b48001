"""The harness of the layer "syscalls" itself: the trace, the choice, the faults, and what a wrong module is told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol, cast

import psutil
import pytest

from chaos.files import Files, Left, look, nothing
from chaos.killer import ROOT, Unanswered
from chaos.prepared import Case, prepare
from chaos.syscalls import QUEUE_CASES, STORE_CASES, check, chosen
from chaos.traced import judged
from chaos.tracer import (
    EIO_READING,
    READS,
    Call,
    Tracer,
    faultable,
    ordinal,
    read_trace,
    tracing,
    untraceable,
)
from model import events
from model.contract import CLIENT, KINDS, WORKER, Claim, Kind, State
from model.port import Subject

CASES = {WORKER: QUEUE_CASES, CLIENT: STORE_CASES}
NAMED = {(kind, case.name): case for kind, cases in CASES.items() for case in cases}
CLAIM = NAMED[WORKER, "first claim"]
EVENT = NAMED[CLIENT, "later event"]
KNOWN = NAMED[CLIENT, "event that is known"]
EVERY = 1000

needs_strace = pytest.mark.skipif(bool(untraceable()), reason=untraceable() or "it is there")


class Trace(Protocol):
    def __call__(self, fault: str, kind: Kind = WORKER) -> Tracer: ...


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    """Start strace with a fault on a module that is shipped."""
    with contextlib.ExitStack() as stack:

        def start(fault: str, kind: Kind = WORKER) -> Tracer:
            folder = tmp_path / f"traced-{fault}"
            folder.mkdir()
            return stack.enter_context(tracing(fault, kind, shipped(kind), folder))

        yield start


def shipped(kind: Kind) -> Path:
    return ROOT / f"{kind.name}.py"


def subject(kind: Kind, path: Path) -> Subject[Any, Any]:
    """The shipped module at work on that file."""
    return judged(kind, shipped(kind))(path)


def put(tracer: Tracer, case: Case) -> None:
    prepare(case, subject(tracer.kind, tracer.path)).start.put(tracer.path)


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


def test_what_makes_no_file_cannot_fail_at_its_opening() -> None:
    calls = read_trace(TRACE)
    assert faultable(calls, "EIO", idle=True) == calls[1:]


@needs_strace
@pytest.mark.parametrize(("kind", "case"), [(WORKER, CLAIM), (CLIENT, EVENT)], ids=KINDS)
def test_every_call_of_a_change_is_found(kind: Kind, case: Case, trace: Trace) -> None:
    tracer, file = trace("EIO", kind), kind.file
    put(tracer, case)
    kinds = [(call.syscall, call.file) for call in tracer.calls(case.op)]
    assert kinds[0] == ("openat", f"{file}-journal")
    assert kinds[-1] == ("unlink", f"{file}-journal")
    assert {kind for kind in kinds if kind[0] != "openat"} == {
        *((write, name) for write in ("pwrite64", "fdatasync") for name in (file, f"{file}-journal")),
        ("fdatasync", tracer.folder.name),
        ("unlink", f"{file}-journal"),
    }


@needs_strace
def test_every_reading_of_a_known_event_is_found(trace: Trace) -> None:
    tracer = trace(EIO_READING, CLIENT)
    put(tracer, KNOWN)
    calls = tracer.calls(KNOWN.op)
    assert faultable(calls, EIO_READING, idle=True) == calls
    assert {call.file for call in calls} == {"store.db"}
    assert {call.syscall for call in calls} <= set(READS)
    assert len(calls) >= 2, "whether the file has changed, and the event"


@needs_strace
@pytest.mark.parametrize(
    ("kind", "case", "op"), [(WORKER, CLAIM, Claim("not an identifier", 0)), (CLIENT, KNOWN, KNOWN.op)], ids=KINDS
)
def test_an_operation_that_changes_nothing_has_no_calls(kind: Kind, case: Case, op: Any, trace: Trace) -> None:  # noqa: ANN401 - of either kind
    tracer = trace("EIO", kind)
    put(tracer, case)
    assert not faultable(tracer.calls(op), "EIO")


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
@pytest.mark.parametrize(
    ("fault", "kind", "case"),
    [("EIO", WORKER, CLAIM), ("SIGKILL", WORKER, CLAIM), ("ENOSPC", CLIENT, EVENT), (EIO_READING, CLIENT, KNOWN)],
)
def test_the_fault_is_at_the_very_call(fault: str, kind: Kind, case: Case, trace: Trace) -> None:
    tracer = trace(fault, kind)
    put(tracer, case)
    start = Files.of(tracer.path)
    for call in chosen(faultable(tracer.calls(case.op), fault, idle=case.idle), 6, 1):
        start.put(tracer.path)
        answer = tracer.start(case.op, call)
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
        check(idle, trace("EIO"), judged(WORKER, shipped(WORKER)), EVERY, 1, did)


@needs_strace
def test_a_case_that_changes_nothing_may_be_without_calls(trace: Trace, did: Counter[str]) -> None:
    tracer = trace("SIGKILL", CLIENT)
    check(KNOWN, tracer, judged(CLIENT, shipped(CLIENT)), EVERY, 1, did)
    assert did == {"system calls faulted": 0, "in all": 0}
    assert not tracer.busy


@needs_strace
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_all_calls_of_a_case_can_be_faulted(kind: Kind, trace: Trace, did: Counter[str]) -> None:
    check(NAMED[kind, "new file"], trace("SIGKILL", kind), judged(kind, shipped(kind)), EVERY, 1, did)
    assert did["system calls faulted"] == did["in all"] >= 10


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_hot_journal_has_to_be_rolled_back(kind: Kind, tmp_path: Path) -> None:
    on = subject(kind, tmp_path / kind.file)
    made = prepare(NAMED[kind, "hot journal"], on)
    assert look(on, made.start.put(on.path)) == made.before == made.after
    assert not (tmp_path / f"{kind.file}-journal").exists()
    torn = look(on, Files({"": made.start[""]}).put(on.path))
    assert torn.differs(made.before)


def test_a_hot_journal_that_is_cold_is_no_answer(tmp_path: Path) -> None:
    cold = replace(NAMED[CLIENT, "hot journal"], sql=("BEGIN IMMEDIATE",))
    with pytest.raises(Unanswered, match="what somebody else has done is not in the file"):
        prepare(cold, subject(CLIENT, tmp_path / CLIENT.file))


def test_a_store_may_lack_a_table_before(tmp_path: Path) -> None:
    on = subject(CLIENT, tmp_path / CLIENT.file)
    made = prepare(NAMED[CLIENT, "store without its checkpoint"], on)
    assert made.before == Left(("TABLE ledger",), events.State(checkpoint=()))
    assert made.after == Left(("TABLE checkpoint", "TABLE ledger"), events.State())
    assert made.after.differs(made.before) == "the schema is TABLE checkpoint, TABLE ledger, must be TABLE ledger"


def test_what_else_a_file_holds_is_not_compared(tmp_path: Path) -> None:
    on = subject(CLIENT, tmp_path / CLIENT.file)
    with contextlib.closing(on.open()) as con:
        con.execute("CREATE TABLE private (x)").close()
        assert look(on, on.path) == Left(("TABLE checkpoint", "TABLE ledger"), events.State())
        con.execute("CREATE INDEX own ON ledger (delta)").close()
        assert look(on, on.path).schema == ("TABLE checkpoint", "TABLE ledger", "INDEX own")


def test_a_look_says_what_is_wrong(tmp_path: Path) -> None:
    on = subject(WORKER, tmp_path / WORKER.file)
    path, none = on.path, nothing(on)
    assert look(on, path) == none == Left((), State())
    path.write_text("a" * 4096)
    assert look(on, path).differs(none) == "another connection cannot read: file is not a database"
    path.unlink()
    with contextlib.closing(on.open()) as con:
        con.execute("BEGIN IMMEDIATE").close()
        assert look(on, path, writing=True).problem == "another connection cannot write: database is locked"
    assert look(on, path).rows == State()
    assert look(on, path).differs(none).startswith("the schema is TABLE jobs, ")
    assert look(on, path).differs(none).endswith("TABLE redrives, must be empty")


# --- what is left, and what may be missing ----------------------------------------------------------------------------


@needs_strace
def test_nothing_outlives_its_parent(tmp_path: Path) -> None:
    parent = f"""
import sys
from pathlib import Path
from chaos.syscalls import STORE_CASES
from chaos.prepared import prepare
from chaos.traced import judged
from chaos.tracer import tracing
from model.contract import CLIENT
module, folder = Path({str(shipped(CLIENT))!r}), Path({str(tmp_path)!r})
with tracing("EIO", CLIENT, module, folder) as tracer:
    prepare(STORE_CASES[0], judged(CLIENT, module)(tracer.path)).start.put(tracer.path)
    tracer.calls(STORE_CASES[0].op)
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
    missing = [f"{name}: syscalls: no strace on the PATH" for name in KINDS]
    for line in missing:
        assert f"\nnot tried here: {line}\n" in done.stdout
    assert sorted(verdict["not_tried"]) == sorted(missing)
    words = {(layer["kind"], layer["name"]): layer["word"] for layer in verdict["layers"]}
    assert {words[name, "syscalls"] for name in KINDS} == {"not tried"}
    assert not [line for line in verdict["unanswered"] if "syscalls" in line]
