"""From pytest's reports to the verdict: gathered, judged, written and spoken in the process that the user started."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from model import runs
from model.contract import KINDS, WORKER
from stateful_tests import results, watch
from stateful_tests.doing import DOING, Doing, forget, left
from stateful_tests.ending import is_violation, reason_file
from stateful_tests.options import shown
from stateful_tests.soak import progress
from stateful_tests.tokens import Token, command, digest, here
from stateful_tests.verdict import LAYERS, Check, Verdict, Word, judge, table

SHOWN_IN_FULL: Final = 3
SHOWN_IN_SHORT: Final = 12
CUT_OFF: Final = "did not run to its end"
BRANCH: Final = re.compile(r"^ *[|+][ |+-]*", re.MULTILINE)
"""What stands in front of each line where a group of exceptions is shown as a tree."""


class Gate:
    """Gathers the reports in the process that the user started, and speaks the verdict last of all."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected: set[str] = set()
        self.uncollected: set[str] = set()
        self.reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._stack = contextlib.ExitStack()
        option = config.option
        option.tbstyle, option.reportchars = "no", "N"

    def pytest_sessionstart(self) -> None:
        option = self.config.option
        if option.soak_s:
            self._stack.enter_context(progress(option.soak_s, Path(option.base)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected.add(report.nodeid)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.collected.update(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports[report.nodeid].append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
        self._stack.close()
        result = yield
        verdict = self._verdict(exitstatus)
        self._write(verdict)
        session.exitstatus = verdict.exit_status
        watch.done()
        return result

    def _verdict(self, exitstatus: int) -> Verdict:
        doings = self.config.option.folder / DOING
        lost = {doing.nodeid: doing for doing in left(doings)}
        checks = [self._named(_check(nodeid, reports, lost.get(nodeid))) for nodeid, reports in self.reports.items()]
        forget(doings)
        missing = sorted(self.collected - {check.nodeid for check in checks})
        if reason_file(self.config).exists():  # one line says why; what was not begun or was cut off adds nothing
            missing, checks = [], [check for check in checks if check.why != CUT_OFF]
        known = (check for check in checks if check.layer in LAYERS and check.kind in KINDS)
        return judge(known, self.config.option.judged, missing, self._reasons(exitstatus))

    def _named(self, check: Check) -> Check:
        """With what brings it back, if there is something to bring back."""
        if check.word == "valid":
            return check
        option = self.config.option
        token = Token(check.kind, option.profile, option.seed, digest(check.nodeid), check.position, here())
        return replace(check, token=str(token), replay=command(token, Path(getattr(option, check.kind))))

    def _reasons(self, exitstatus: int) -> list[str]:
        config, option = self.config, self.config.option
        chosen = option.keyword or option.markexpr or option.deselect or option.ignore or option.ignore_glob
        again = getattr(option, "lf", False) or getattr(option, "stepwise", False)
        partial = chosen or again or config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        reasons = ["only a part of the checks was chosen"] * bool(partial)
        reasons += [f"{nodeid}: could not be collected" for nodeid in sorted(self.uncollected)]
        reasons += runs.changes(option.identities)
        if (file := reason_file(config)).exists():
            reasons.append(file.read_text())
        elif exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            names = {status.value: status.name.lower().replace("_", " ") for status in pytest.ExitCode}
            reasons.append(f"pytest ended early: {names.get(exitstatus, f'status {exitstatus}')}")
        return reasons

    # --- what is written ----------------------------------------------------------------------------------------------

    def _write(self, verdict: Verdict) -> None:
        option = self.config.option
        stories = {nodeid: _found(reports).get("story") for nodeid, reports in self.reports.items()}
        results.write(verdict, option, stories)
        results.write_programs(option.folder, [*verdict.failures, *verdict.stopped])
        terminal = self.config.get_terminal_writer()
        terminal.line()
        for line, colour in self._lines(verdict):
            terminal.line(line, **({colour: True} if colour else {}))
        terminal.flush()

    def _lines(self, verdict: Verdict) -> Iterator[tuple[str, str]]:
        first = telling(verdict.failures)
        for check in first:
            yield from self._failure(check)
        others = [f"{check.layer}: {check.title} ({check.token})" for check in verdict.failures if check not in first]
        yield from _in_short(others, "also")
        yield from _in_short(verdict.unanswered, "unanswered")
        for line in table([layer for layer in verdict.layers if layer.checks] or verdict.layers):
            yield line, ""
        for line in verdict.not_tried:
            yield f"not tried here: {line}", ""
        yield "", ""
        option = self.config.option
        yield f"judged   {', '.join(shown(getattr(option, name)) for name in option.judged)}", ""
        programs = f" (programs {verdict.transcript[:12]})" if verdict.transcript else ""
        yield f"seed     {option.seed}{programs}", ""
        yield f"results  {shown(option.folder)}", ""
        colour = {"valid": "green", "invalid": "red", "unknown": "yellow"}[verdict.word]
        if option.again and verdict.word == "unknown" and not verdict.stopped:
            yield "repro: the failure did not come again", ""
        yield f"verdict: {verdict.word}", colour

    def _failure(self, check: Check) -> Iterator[tuple[str, str]]:
        yield f"{check.layer}: {check.title}: {check.difference}", "red"
        for line in check.program:
            yield f"    {line}", ""
        yield f"  replay  {check.replay}", ""
        if check.origin:
            yield f"  drawn   {check.origin}", ""
        yield f"  report  {shown(self.config.option.folder / 'report.html')}", ""
        yield "", ""


def _check(nodeid: str, reports: list[pytest.TestReport], lost: Doing | None) -> Check:
    """Valid needs a passed setup, call and teardown; a violation in any of them decides.

    ``lost`` is what is known of a check whose process was.
    """
    known = {"kind": lost.kind, "layer": lost.layer, "doing": lost.lines} if lost else {}
    properties: dict[str, Any] = known | dict(item for report in reports for item in report.user_properties)
    violation = _found(reports)
    stopped = [report for report in reports if not report.passed and not is_violation(report)]
    whole = {report.when for report in reports} == {"setup", "call", "teardown"}
    word: Word = "invalid" if violation else "valid" if whole and not stopped else "unknown"
    why = _why(stopped[0]) if stopped else "" if whole or violation else CUT_OFF
    return Check(
        nodeid,
        kind=properties.get("kind", WORKER.name),
        layer=properties.get("layer", LAYERS[0]),
        word=word,
        seconds=sum(report.duration for report in reports),
        did=properties.get("did", {}),
        covered=properties.get("covered", {}),
        difference=violation.get("difference", ""),
        program=violation.get("program", ()),
        transcript=properties.get("transcript", ""),
        why=why,
        skipped=bool(stopped) and all(report.skipped for report in stopped),
        steps=violation["steps"] if violation else properties.get("doing", ()) if word == "unknown" else (),
        origin=violation["origin"] if violation else "",
        position=properties.get("position", ""),
    )


def _found(reports: Sequence[pytest.TestReport]) -> dict[str, Any]:
    """The violation that a check has found, as data; empty if it has found none."""
    properties: dict[str, Any] = dict(item for report in reports for item in report.user_properties)
    violation: dict[str, Any] = properties.get("violation", {})
    return violation


def _why(report: pytest.TestReport) -> str:
    """The last line that says anything: an error's own, a skip's reason, what xdist says of a dead process."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    lines = [line.strip() for line in BRANCH.sub("", report.longreprtext).splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (errors or lines or ["failed without a word"])[0 if errors else -1]


def telling(failures: Sequence[Check]) -> list[Check]:
    """A few failures that have the most to say together: the first of each test, and no difference twice."""
    chosen: list[Check] = []
    tests, differences = set[str](), set[str]()
    for check in failures:
        test = check.nodeid.partition("[")[0]
        if test not in tests and check.difference not in differences:
            chosen.append(check)
        tests.add(test)
        differences.add(check.difference)
    return chosen[:SHOWN_IN_FULL]


def _in_short(lines: list[str] | Any, label: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    for line in lines[:SHOWN_IN_SHORT]:
        yield f"{label}  {line}", ""
    if len(lines) > SHOWN_IN_SHORT:
        yield f"{label}  {len(lines) - SHOWN_IN_SHORT} more, all of them in verdict.json", ""
    if lines:
        yield "", ""
