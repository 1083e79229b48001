"""What a process was doing is on disk before it does it, and outlives it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from model import steps
from model.contract import Claim, Crash, Enqueue, Reopen, RunOnce, parse
from model.queue import Queue, Worker
from stateful_tests.doing import DOING
from stateful_tests.lockstep import Lockstep
from stateful_tests.programs import read
from stateful_tests.results import REGRESSIONS
from stateful_tests.test_gate import ROOT, STATEFUL, command, environment, gate

PROGRAMS = f"{STATEFUL}::test_random_programs_agree_with_the_model[0]"
CHECKS = {
    PROGRAMS: ("worker", "owner="),
    f"{STATEFUL}::test_random_programs_of_the_stream_agree_with_the_model[0]": ("client", "(data=b'EVENT 1 "),
    "stateful_tests/test_unfair_publisher.py::test_random_sessions_agree_with_the_model[0]": (
        "client sessions",
        "peer.sendall(",
    ),
    "stateful_tests/test_transitions.py::test_every_transition_agrees_with_the_model[0]": (
        "# state ",
        "Claim(",
    ),
}
"""What its program is of where it ends, and what is in the last line."""


def ending(folder: Path, kind: str, end: str) -> Path:
    """A copy of the shipped file that comes to this end where there is a job to ask for, or an event before."""
    begins = {
        "worker": '    owner = _identifier("owner", owner)\n',
        "client": "    last, _ = _checkpoint(con)\n    if seq > last + 1:",
    }[kind]
    rows = {"worker": "jobs", "client": "ledger"}[kind]
    text = (ROOT / f"{kind}.py").read_text()
    assert text.count(begins), "the edit no longer applies"
    here = f"""    if "pytest" in sys.modules and con.execute("SELECT 1 FROM {rows}").fetchall(): {end}\n"""
    file = folder / f"{kind}.py"
    file.write_text(text.replace(begins, here + begins).replace("import re\n", "import re, signal, sys, time\n", 1))
    return file


DIES = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    steps.begin(tmp_path / "steps")
    yield tmp_path / "steps"
    steps.end()


def test_a_step_is_written_before_it_is_made(worker: Worker, tmp_path: Path, file: Path) -> None:
    seen: list[str] = []
    with Lockstep(Queue(worker, tmp_path / "queue.db"), Counter(), 2) as pair:
        for op, con in ((Enqueue("a", 5, 0, 100), 1), (Reopen(), 2), (Crash(Claim("w", 0, 9), "after-claim"), 2)):
            pair.do(op, con)
            seen.append(file.read_text().splitlines()[-1])
    assert seen[0] == "1 Enqueue(id='a', qty=5, now_ms=0, ttl_ms=100, max_attempts=3)"
    assert parse(seen[2].removeprefix("2 ")) == Crash(Claim("w", 0, 9), "after-claim")
    assert "2 Reopen()" in file.read_text().splitlines()


def test_what_happens_within_a_step_is_none(worker: Worker, tmp_path: Path, file: Path) -> None:
    with Lockstep(Queue(worker, tmp_path / "queue.db"), Counter()) as pair:
        pair.do(Enqueue("a", 5, 0, 100))
        pair.do(RunOnce("w", 0, 1, meanwhile=(Claim("x", 0, 9),)))
    taken = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [line.partition("(")[0] for line in taken] == ["worker", "1 Enqueue", "1 RunOnce"]
    assert "# meanwhile: 1 Claim(owner='x', now_ms=0, lease_ms=9)" in file.read_text().splitlines()


def test_each_program_begins_anew(file: Path) -> None:
    steps.check("a check")
    for number in range(3):
        steps.program(f"program {number}")
        steps.enter(Claim("w", number))
        steps.leave()
    assert file.read_text() == "# a check\nprogram 2\n1 Claim(owner='w', now_ms=2, lease_ms=1000)\n"


@pytest.mark.parametrize("nodeid", CHECKS)
def test_a_killed_gate_leaves_its_case(tmp_path: Path, nodeid: str) -> None:
    head, last = CHECKS[nodeid]
    kind = "client" if "client" in head else "worker"
    module = ending(tmp_path, kind, DIES)
    words = command(tmp_path, "-n0", f"--{kind}", str(module), "--seed", "3", nodeid)
    done = subprocess.run(words, cwd=ROOT, env=environment(tmp_path), capture_output=True, timeout=100, check=False)  # noqa: S603 - our own gate
    assert done.returncode == 2
    lines = (tmp_path / "latest" / DOING / "main").read_text().splitlines()
    assert lines[0] == f"# {nodeid}"
    assert lines[2].startswith(head)
    assert last in lines[-1]
    (why,) = json.loads((tmp_path / "latest" / "verdict.json").read_text())["unanswered"]
    assert why.startswith(f"the process that runs the checks was killed by SIGKILL in {nodeid}; ")
    assert why.endswith("in the folder doing")


def test_a_killed_process_of_many_keeps_its_case(tmp_path: Path) -> None:
    run = gate(tmp_path, "-n1", "--worker", str(ending(tmp_path, "worker", DIES)), "--seed", "3", PROGRAMS)
    (stopped,) = run.verdict["stopped"]
    assert (run.status, stopped["kind"], stopped["layer"]) == (2, "worker", "stateful")
    assert stopped["steps"][0] == "worker"
    last = stopped["steps"][-1].removeprefix("# meanwhile: ")
    assert "owner=" in last
    (line,) = (line for line in run.verdict["unanswered"] if "crashed" in line)
    assert line.endswith(f"; at {last} ({stopped['token']})")
    assert not (run.results / "latest" / DOING).exists()


def test_a_hung_check_keeps_its_case(tmp_path: Path) -> None:
    file = ending(tmp_path, "worker", "time.sleep(3600)")
    run = gate(tmp_path, "--worker", str(file), "--seed", "3", "--timeout", "10", PROGRAMS)
    (stopped,) = run.verdict["stopped"]
    assert (run.status, "Timeout (>10.0s)" in stopped["why"]) == (2, True)
    assert "owner=" in stopped["steps"][-1]
    (kept,) = (run.results / "latest" / REGRESSIONS).iterdir()
    assert read(kept).lines == [line for line in stopped["steps"] if not line.startswith("#")]
    assert not (run.results / "latest" / DOING).exists()
