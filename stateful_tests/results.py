"""What a run of the gate leaves in its folder."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from model import runs
from model.report import page
from stateful_tests import picture
from stateful_tests.options import shown
from stateful_tests.programs import write as write_program
from stateful_tests.verdict import Check, Verdict, Word, judge

REGRESSIONS = "regressions"
"""The folder, in that of a run, with the programs that failed, each ready to be kept."""

UNENDED = "the run did not come to its end; what each process was doing is in the folder doing"

OUTCOME = "outcome"
"""The property in JUnit that a check has which found a violation."""


def prepare(option: argparse.Namespace) -> None:
    """The run's own folder, with what a run leaves that does not come to its end."""
    option.identities = runs.identities({name: getattr(option, name) for name in option.judged})
    option.folder = runs.new_folder(Path(option.results), option.seed)
    option.xmlpath = option.xmlpath or str(option.folder / "junit.xml")
    _write_files(judge((), option.judged, reasons=[UNENDED]), option, {})


def write_programs(folder: Path, checks: Iterable[Check]) -> None:
    """The program of each check that has one, with what it shows; what stopped, up to where it did."""
    for check in checks:
        what = check.difference or check.why
        write_program(
            folder / REGRESSIONS, check.steps, f"{check.layer}: {check.title}: {what}", f"found as {check.token}"
        )


def write(verdict: Verdict, option: argparse.Namespace, stories: Mapping[str, Any] | None = None) -> None:
    """``verdict.json``: all that the verdict rests on, and what was judged; ``report.html``: the same, to look at, with
    what the checks have put aside, and the ``stories`` of those that failed; and JUnit's file, which is no greener.
    """
    _write_files(verdict, option, stories or {})
    junit = Path(option.xmlpath)
    root = ET.parse(junit).getroot() if junit.is_file() else _no_test()  # noqa: S314 - pytest has written it
    tell_errors_apart(root, verdict)
    ET.ElementTree(root).write(junit, encoding="utf-8", xml_declaration=True)


def write_unknown(option: argparse.Namespace, reason: str) -> None:
    """That nothing was found out, and why."""
    write(judge((), option.judged, reasons=[reason]), option)


def read_word(option: argparse.Namespace) -> Word:
    """The verdict that was written last."""
    word: Word = json.loads((option.folder / "verdict.json").read_text())["verdict"]
    return word


def tell_errors_apart(root: ET.Element, verdict: Verdict) -> None:
    """In JUnit's terms a violation is a failure, and every other red check an error: it did not get to an answer.

    An unknown that no check accounts for is an error too, on its own.
    """
    for suite in root.iter("testsuite"):
        for case in suite.iter("testcase"):
            if not any(known.get("name") == OUTCOME for known in case.iter("property")):
                for failure in case.findall("failure"):
                    failure.tag = "error"
        if verdict.word == "unknown" and suite.find("testcase/error") is None:
            case = ET.SubElement(suite, "testcase", classname="fencepost", name="verdict", time="0")
            ET.SubElement(case, "error", message=verdict.unanswered[0])
            suite.set("tests", str(int(suite.get("tests", 0)) + 1))
        for name in ("failure", "error"):
            suite.set(f"{name}s", str(len(list(suite.iter(name)))))


def _no_test() -> ET.Element:
    suites = ET.Element("testsuites")
    ET.SubElement(suites, "testsuite", name="pytest", tests="0")
    return suites


def _write_files(verdict: Verdict, option: argparse.Namespace, stories: Mapping[str, Any]) -> None:
    data = verdict.as_json(judged=option.identities, seed=option.seed, profile=option.profile)
    (option.folder / "verdict.json").write_text(json.dumps(data, indent=2) + "\n")
    facts = [[name, shown(getattr(option, name))] for name in option.judged]
    facts += [["profile", option.profile], ["seed", option.seed]]
    facts += [["programs", verdict.transcript[:12]]] if verdict.transcript else []
    base = Path(option.base) if hasattr(option, "base") else None
    seen = picture.data(verdict, facts, data["failures"], base, stories)
    (option.folder / "report.html").write_text(page(seen), "utf-8")
