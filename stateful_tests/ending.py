"""A run of the gate ends early for what one check has shown: its first violation, or a module that hangs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import pytest

END_AT_FIRST: Final = "ended at the first violation"
GIVEN_UP_AFTER: Final = 3
TIMED_OUT: Final = "from pytest-timeout"


class Ending:
    """Ends the run for what one check has shown: in this process, and by way of a file in every other one.

    The first violation, if that was asked for; and a module that hangs, of which the rest would take hours.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.first, self.folder, self.reason = config.option.first, Path(config.option.base), reason_file(config)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.first and is_violation(report):
            self._end(END_AT_FIRST)
        elif report.failed and TIMED_OUT in report.longreprtext:
            digest = hashlib.sha256(report.nodeid.encode()).hexdigest()
            (self.folder / f"hung-{digest}").touch()
            if len(list(self.folder.glob("hung-*"))) >= GIVEN_UP_AFTER:
                self._end(f"given up after {GIVEN_UP_AFTER} checks that did not come back")

    def pytest_runtest_protocol(self) -> None:
        if self.reason.exists():
            self.session.shouldstop = self.reason.read_text()

    def _end(self, reason: str) -> None:
        self.reason.write_text(reason)
        self.session.shouldstop = reason


def reason_file(config: pytest.Config) -> Path:
    """Is there once the run was ended early, and says why."""
    return Path(config.option.base) / "ended"


def is_violation(report: pytest.TestReport) -> bool:
    """Did this part of a check find something wrong?"""
    return any(name == "violation" for name, _ in report.user_properties)
