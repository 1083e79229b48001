"""A run of the gate ends early for what one check has shown: its first violation, or a module that hangs."""

from __future__ import annotations

import faulthandler
import hashlib
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from model.counterexample import Violation
from stateful_tests.checks import is_first

END_AT_FIRST: Final = "ended at the first violation"
GIVEN_UP_AFTER: Final = 3
FIRST_S: Final = 120.0
GRACE_S: Final = 10
"""A check whose time was over so long ago, and twice, is not slow to be interrupted: its process is ended."""
TIMED_OUT: Final = "from pytest-timeout"
PHASES: Final = ("setup", "call", "teardown")
"""xdist reports a check whose process has ended as in none of them."""
UNRULY: Final = "unruly"
UNRULY_ENDS: Final = "ended early: nothing can be relied on where this module has run"


class Unruly(Violation):
    """After it nothing that runs in a process of the module can be relied on, or it would be dangerous to go on."""


class Ending:
    """Ends the run for what one check has shown: in this process, and by way of a file in every other one.

    The first violation, if that was asked for; a module that is unruly; and one that hangs, or ends its process, of
    which the rest would take hours.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.option = config, config.option
        self.folder, self.reason = Path(self.option.base), reason_file(config)
        self.parent = os.getppid()
        self.first_done: list[Path] = []
        self.nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the process

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.option.first and is_violation(report):
            self._end(END_AT_FIRST)
        elif any(name == UNRULY for name, _ in report.user_properties):
            self._end(UNRULY_ENDS)
        elif report.failed and (report.when not in PHASES or TIMED_OUT in report.longreprtext):
            (self.folder / f"hung-{_digest(report.nodeid)}").touch()
            if len(list(self.folder.glob("hung-*"))) >= GIVEN_UP_AFTER:
                self._end(f"given up after {GIVEN_UP_AFTER} checks that did not come back")
        if os.getppid() != self.parent:
            self._end("the process that was started as the gate is gone")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.first_done = [self.folder / f"first-{_digest(item.nodeid)}" for item in session.items if is_first(item)]

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        faulthandler.cancel_dump_traceback_later()
        if (done := self.folder / f"first-{_digest(nodeid)}") in self.first_done:
            done.touch()

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_protocol")
    def wait_for_the_first(self, item: pytest.Item) -> Generator[None, object, object]:
        """Nothing runs beside the first checks, which may show that nothing must: xdist's first process makes them.

        Around all else: the time of the check that waits has not begun.
        """
        until = time.monotonic() + FIRST_S
        while hasattr(self.config, "workerinput") and not is_first(item) and time.monotonic() < until:
            if self.reason.exists() or all(file.exists() for file in self.first_done):
                break
            time.sleep(0.02)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if self.reason.exists():
            self.session.shouldstop = self.reason.read_text()
            return True
        # pytest-timeout cannot interrupt what holds the interpreter's lock; this ends the process.
        if limit := _limit(item):
            faulthandler.dump_traceback_later(2 * limit + GRACE_S, exit=True, file=self.nowhere)
        return None

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self.nowhere.close()

    def _end(self, reason: str) -> None:
        self.reason.write_text(reason)
        self.session.shouldstop = reason
        # xdist would wait for every process that still runs a check, and one may hang.
        if self.config.pluginmanager.has_plugin("dsession"):
            raise self.session.Interrupted(reason)


def _digest(nodeid: str) -> str:
    return hashlib.sha256(nodeid.encode()).hexdigest()


def _limit(item: pytest.Item) -> float:
    """How many seconds the check may take by pytest-timeout's settings; 0 for any time."""
    mark = item.get_closest_marker("timeout")
    given = item.config.option.timeout
    return float(mark.args[0] if mark else item.config.getini("timeout") if given is None else given)


def reason_file(config: pytest.Config) -> Path:
    """Is there once the run was ended early, and says why."""
    return Path(config.option.base) / "ended"


def is_violation(report: pytest.TestReport) -> bool:
    """Did this part of a check find something wrong?"""
    return any(name == "violation" for name, _ in report.user_properties)
