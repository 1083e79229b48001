"""A gate that is collected once and judges many: for each order it forks, and the copy runs the checks to a verdict.

``Examiner`` starts ``python -m stateful_tests.examiner KIND PROFILE SEED RESULTS`` and speaks with it: orders are lines
of JSON, and so are the verdicts, ``null`` where there is none. To collect takes longer than most wrong implementations
live. Nothing is open, and no module under test is loaded, when the copy is made; from there on it is a gate like any
other.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest
from hypothesis import Phase, settings

from model import runs
from stateful_tests import watch
from stateful_tests.checks import layer_of
from stateful_tests.ending import is_violation
from stateful_tests.options import ROOT

STORAGE: Final = "HYPOTHESIS_STORAGE_DIRECTORY"
"""Each examiner has its own: what one candidate fails at is not tried on the next one."""
PATIENCE_S: Final = 900
TIDY_S: Final = 5
GRACE_S: Final = 10


@dataclass(frozen=True, slots=True)
class Order:
    """Judge the file at ``path``, beginning with the checks named in ``early``: ``full``, or to the first violation."""

    path: str
    early: tuple[str, ...]
    full: bool


class Examiner:
    """The process, seen from outside. Interrupts of the terminal do not reach it: ``end`` ends it."""

    def __init__(self, kind: str, profile: str, seed: int, results: Path) -> None:
        words = ("-m", "stateful_tests.examiner", kind, profile, str(seed), str(results))
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, *words],
            cwd=ROOT,
            env=os.environ | {STORAGE: str(results / f"hypothesis-{kind}-{profile}-{id(self)}")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def judge(self, order: Order) -> dict[str, Any] | None:
        """The verdict, as verdict.json has it; None if there is none: the copy died early, or the examiner has."""
        assert self.process.stdin  # noqa: S101 - for mypy
        assert self.process.stdout  # noqa: S101 - for mypy
        try:
            self.process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            self.process.stdin.flush()
            verdict: dict[str, Any] | None = json.loads(self.process.stdout.readline() or b"null")
        except (OSError, ValueError):
            return None
        return verdict

    def end(self) -> None:
        """Let it tidy up; an examiner at work is interrupted."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError), self.process:
            pass  # closes the pipes


def main(kind: str, profile: str, seed: str, results: str) -> int:
    """Serve until stdin closes, or until interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background forbids it
    orders, verdicts = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what pytest or a module prints is not a verdict
    shipped = str(ROOT / f"{kind}.py")
    options = [f"--{kind}", shipped, "--profile", profile, "--seed", seed, "--results", results]
    with orders, verdicts:
        return pytest.main(
            ["--gate", *options, "-n0", "-q", "-p", "no:cacheprovider", "--assert=plain"],
            [Serving(kind, orders, verdicts)],
        )


class Serving:
    """Takes the place of pytest's loop over the checks; in a copy it leaves it to pytest."""

    def __init__(self, kind: str, orders: BinaryIO, verdicts: BinaryIO) -> None:
        self.kind, self.orders, self.verdicts = kind, orders, verdicts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """None, in a copy: the checks are to be run. True: there are no more orders."""
        verdict, base = session.config.option.folder / "verdict.json", Path(session.config.option.base)
        gc.collect()
        gc.freeze()  # a collection in a copy would touch every page
        for line in self.orders:
            verdict.unlink(missing_ok=True)
            shutil.rmtree(os.environ[STORAGE], ignore_errors=True)
            shutil.rmtree(base, ignore_errors=True)
            base.mkdir(mode=0o700)
            if not (copy := os.fork()):
                _prepare(session, self.kind, Order(**json.loads(line)))
                return None
            _await(copy, self.orders)
            self.verdicts.write(_one_line(verdict) + b"\n")
            self.verdicts.flush()
        return True


def _prepare(session: pytest.Session, kind: str, order: Order) -> None:
    """Make this copy the gate of another file, and the child of this process."""
    config = session.config
    watch.forget()
    ending: Any = config.pluginmanager.get_plugin("fencepost-ending")
    ending.parent = os.getppid()
    setattr(config.option, kind, order.path)
    config.option.identities = {kind: runs.identity(order.path)}
    early = {nodeid: place for place, nodeid in enumerate(order.early)}
    session.items.sort(key=lambda item: early.get(item.nodeid, len(early)))
    config.option.first = not order.full
    if order.full:
        config.pluginmanager.register(OnceALayer())


class OnceALayer:
    """Once a layer has found the module wrong, the rest of it has nothing to add, nor has a shorter program."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        settings.register_profile("once a layer", phases=set(Phase) - {Phase.shrink})
        settings.load_profile("once a layer")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if is_violation(report):
            self.found.update(str(value) for name, value in report.user_properties if name == "layer")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if layer_of(item) in self.found:
            pytest.skip("its layer has found the module wrong")


def _await(copy: int, orders: BinaryIO) -> None:
    """Until it has ended. If its time is over, or nobody is there any more, it is killed, and all that it started."""
    watched = os.pidfd_open(copy)
    try:
        select.select([watched, orders.fileno()], [], [], PATIENCE_S)
    finally:  # who interrupts us has interrupted the copy as well, and it may tidy up
        if not select.select([watched], [], [], TIDY_S)[0]:
            watch.kill_family(copy)
        os.waitpid(copy, 0)
        os.close(watched)


def _one_line(verdict: Path) -> bytes:
    try:
        return json.dumps(json.loads(verdict.read_bytes())).encode()
    except (OSError, ValueError):
        return b"null"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
