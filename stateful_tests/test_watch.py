"""The gate's two processes: however the one that the user started is stopped, and however the other one ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from model import scratch
from stateful_tests.test_gate import ROOT, STATEFUL, command, environment


@contextlib.contextmanager
def running(results: Path, *arguments: str) -> Iterator[tuple[psutil.Popen, list[psutil.Process]]]:
    """A gate that has begun to write queue files, and the processes that it has started."""
    process = psutil.Popen(
        command(results, *arguments),
        cwd=ROOT,
        env=environment(results),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while not any(databases(child.pid) for child in process.children()):
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        yield process, process.children(recursive=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def databases(pid: int) -> list[Path]:
    return [file for folder in folders(pid) for file in folder.rglob("*.db")]


def folders(pid: int) -> list[Path]:
    """The temporary folders of a process that runs, or ran, as ``pid``."""
    return list(scratch.fast().glob(f"fencepost-{pid}-*"))


def alive(processes: list[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that still run after so long; whether anybody reaps a dead one is not ours to say."""
    until = time.monotonic() + within_s
    while (left := [*filter(runs, processes)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("processes", "kill", "number"),
    [
        ("-n2", os.killpg, signal.SIGINT),
        ("-n0", os.killpg, signal.SIGINT),
        ("-n2", os.kill, signal.SIGINT),
        ("-n2", os.kill, signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_nothing(
    tmp_path: Path, processes: str, kill: Callable[[int, int], None], number: int
) -> None:
    with running(tmp_path, processes, "--profile", "soak", STATEFUL) as (process, children):
        kill(process.pid, number)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out.splitlines()[-1]) == (2, "verdict: unknown"), out
        assert alive(children, 30) == []
        assert [folder for child in children for folder in folders(child.pid)] == []


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "-n2", "--profile", "soak", STATEFUL) as (process, children):
        (runner,) = process.children()
        runner.suspend()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        assert (process.returncode, out.splitlines()[-1]) == (2, "verdict: unknown"), out
        assert "unanswered  the process that runs the checks was killed by SIGKILL" in out
        assert alive(children, 10) == []


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_no_check_goes_on_without_the_gate(tmp_path: Path, processes: str) -> None:
    with running(tmp_path, processes, "--profile", "soak", STATEFUL) as (process, children):
        process.kill()
        process.wait()
        assert alive(children, 60) == []
    assert json.loads((tmp_path / "latest" / "verdict.json").read_text())["verdict"] == "unknown"


def test_whoever_calls_pytest_goes_on_once(tmp_path: Path) -> None:
    arguments = command(tmp_path, "-n0", "stateful_tests/test_contract_retry_delay.py")[3:]
    program = f"import pytest; print('status', pytest.main({arguments}))"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("status")] == ["status 2"]
    assert done.stdout.splitlines()[-2] == "verdict: unknown"
