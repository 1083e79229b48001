"""Where a run of the gate puts what it found: a folder of its own, and ``latest``, which always speaks of the last."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from stateful_tests.options import ROOT
from stateful_tests.programs import write as write_program
from stateful_tests.verdict import Check, Verdict

REGRESSIONS = "regressions"
"""The folder, in that of a run, with the programs that failed, each ready to be kept."""

OUTCOME = "outcome"
"""The property in JUnit that a check has which found a violation."""


def new_folder(runs: Path, seed: int) -> Path:
    """A folder in ``runs`` that no other run has; ``latest`` points to it from now on."""
    runs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}-", dir=runs))
    folder.chmod(0o755)
    link = runs / f".latest-{os.getpid()}"
    link.symlink_to(folder.name)
    latest = runs / "latest"
    if latest.is_dir() and not latest.is_symlink():
        latest.rename(runs / f"not-{folder.name}")  # whoever copied the folders made one of the link
    link.replace(latest)
    return folder


def write(folder: Path, verdict: Verdict, option: argparse.Namespace) -> None:
    """``verdict.json``: all that the verdict rests on, and what was judged."""
    judged = {name: _file(Path(getattr(option, name))) for name in option.judged}
    context = {"judged": judged, "seed": option.seed, "profile": option.profile}
    (folder / "verdict.json").write_text(json.dumps(verdict.as_json(**context), indent=2) + "\n")


def shown(path: str | Path) -> str:
    """Relative where that is shorter to read: inside the project."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def write_programs(folder: Path, checks: Iterable[Check]) -> None:
    """The program of each check that has one, with what it shows; what stopped, up to where it did."""
    for check in checks:
        what = check.difference or check.why
        write_program(
            folder / REGRESSIONS, check.steps, f"{check.layer}: {check.title}: {what}", f"found as {check.token}"
        )


def tell_errors_apart(junit: Path) -> None:
    """In JUnit's terms a violation is a failure, and every other red check an error: it did not get to an answer."""
    tree = ET.parse(junit)  # noqa: S314 - pytest has just written it
    for suite in tree.iter("testsuite"):
        for case in suite.iter("testcase"):
            if not any(known.get("name") == OUTCOME for known in case.iter("property")):
                for failure in case.findall("failure"):
                    failure.tag = "error"
        for name in ("failure", "error"):
            suite.set(f"{name}s", str(len(list(suite.iter(name)))))
    tree.write(junit, encoding="utf-8", xml_declaration=True)


def _file(path: Path) -> dict[str, str]:
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""}
