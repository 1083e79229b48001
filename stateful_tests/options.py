"""What a run of the gate can be told: its options, their help, and how much each profile does."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

from model.contract import KINDS
from stateful_tests.programs import SHIPPED, kept, malformed

ROOT: Final = Path(__file__).resolve().parent.parent
IMPORT_S: Final = 30

HELP: Final = """\
usage: tox run -e gate -- [--worker PATH] [--client PATH] [--profile quick|ci|soak] [--seed N] [--minutes M]

Judge a lease queue on SQLite, or a receiver of an event stream, or both, against their contracts. What is not given is
not judged; if neither is, the shipped worker.py and client.py are.

  --worker PATH   the lease queue to judge, wherever it lies; it is imported and run, not sandboxed
  --client PATH   the receiver to judge; the same goes for it
  --profile NAME  ci is the default; quick does less of everything, and of most checks only one in eight;
                  soak goes on for --minutes, and replays a world so large that it alone takes most of an hour
  --minutes M     how long soak goes on (10)
  --seed N        fixes every random choice; without it one is drawn, and printed at the end
  --first         end at the first violation
  --examples PLACE   examples of Hypothesis that machines share: a folder, or redis://HOST/0 (FENCEPOST_EXAMPLES)
  --regressions DIR  programs that failed before, replayed first beside those kept here (FENCEPOST_REGRESSIONS)
  NODEID          one check alone, as a failure names it; part of the checks never makes a verdict valid

Exit status: 0 valid, 1 invalid, 2 unknown (something kept a layer from running to its end); 4 is pytest's, for an
option that it does not know.
Results: runs/latest/report.html to look at, runs/latest/verdict.json for programs, runs/latest/junit.xml for CI;
--results DIR puts them elsewhere.
All options of pytest work too: --basetemp DIR chooses the disk that the queue files lie on.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """How much each layer does: programs of the stateful machine in each shard, and steps in each program.

    ``scopes`` and ``stream_scopes`` are the worlds of the queue and of the stream whose every transition is replayed,
    by all shards together; ``faults`` is how many system calls are faulted, at most, in each check of that. Of the
    checks of the layers in ``SAMPLED`` one in ``every`` is made.
    """

    shards: int
    programs: int
    steps: int
    scopes: tuple[str, ...]
    stream_scopes: tuple[str, ...]
    faults: int
    every: int = 1


PROFILES: Final = {
    "quick": Profile(shards=2, programs=12, steps=25, scopes=("one",), stream_scopes=("brief",), faults=3, every=8),
    "ci": Profile(
        shards=8, programs=40, steps=40, scopes=("again", "rescue", "pair"), stream_scopes=("stream",), faults=8
    ),
    "soak": Profile(
        shards=os.cpu_count() or 1,
        programs=200,
        steps=60,
        scopes=("two", "three", "wide"),
        stream_scopes=("long",),
        faults=1000,
    ),
}


def add(parser: pytest.Parser) -> None:
    """Make them known to pytest."""
    group = parser.getgroup("fencepost", "fencepost: judge a lease queue (`--gate --help` for these alone)")
    group.addoption("--gate", action="store_true", help="run the checks of every layer, and end with a verdict")
    for name in KINDS:
        group.addoption(f"--{name}", metavar="PATH", help=f"the {name} to judge (the shipped {name}.py)")
    group.addoption("--seed", metavar="N", type=int, help="fixes every random choice; drawn and printed otherwise")
    group.addoption(
        "--results", metavar="DIR", default=str(ROOT / "runs"), help="where each run gets its folder (runs)"
    )
    group.addoption("--profile", choices=sorted(PROFILES), help="how much to do (ci; quick without --gate)")
    group.addoption("--first", action="store_true", help="end at the first violation")
    group.addoption("--minutes", metavar="M", type=_minutes, help="how long the soak profile goes on (10)")
    group.addoption(
        "--examples", metavar="PLACE", help="a folder or redis:// server of Hypothesis' examples, shared by machines"
    )
    group.addoption(
        "--regressions", metavar="DIR", action="append", help="programs to replay first, beside those kept here"
    )
    group.addoption("--again", default="", help=argparse.SUPPRESS)  # the token, from python -m stateful_tests.repro


def positive(given: str) -> int:
    """A number from 1 on, for argparse."""
    if given.isascii() and given.isdigit() and 0 < (number := int(given)) < 10**9:
        return number
    raise argparse.ArgumentTypeError(f"{given!r} is not a number from 1 on")


def _minutes(given: str) -> float:
    minutes = float(given)
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of minutes above 0")
    return minutes


def settle(option: argparse.Namespace, folder: Path) -> str:
    """Fill in what was left open, paths seen from ``folder``; why nothing can be judged, in one line, or nothing."""
    option.seed = random.SystemRandom().randrange(2**32) if option.seed is None else option.seed
    option.profile = option.profile or ("ci" if option.gate else "quick")
    option.examples = _place(option.examples or os.environ.get("FENCEPOST_EXAMPLES", ""), folder)
    named = option.regressions or os.environ.get("FENCEPOST_REGRESSIONS", "").split(os.pathsep)
    option.regressions = [_place(name, folder) for name in named if name]
    given = [name for name in KINDS if getattr(option, name) is not None]
    problem = _usage_problem(option)
    option.judged = given if option.gate and given else list(KINDS)
    for name in KINDS:
        path = ROOT / f"{name}.py" if name not in given else folder / getattr(option, name)
        setattr(option, name, str(path.resolve()))
    problems = (_import_problem(Path(getattr(option, name)), name) for name in option.judged)
    return problem or next(filter(None, problems), "")


def _usage_problem(option: argparse.Namespace) -> str:
    for name in KINDS:
        if getattr(option, name) is not None and not getattr(option, name).strip():
            return f"--{name}: no path is given"
    if option.minutes is not None and option.profile != "soak":
        return "--minutes: only --profile soak goes on for a given time"
    for folder in option.regressions:
        if not Path(folder).is_dir():
            return f"--regressions: {folder}: no such folder"
    if problem := next(filter(None, map(malformed, kept(SHIPPED, *option.regressions))), ""):
        return problem
    if option.examples:
        from stateful_tests.examples import problem_with  # noqa: PLC0415 - Hypothesis takes its time

        return problem_with(option.examples)
    return ""


def _place(given: str, folder: Path) -> str:
    return given if not given or "://" in given else str((folder / given).resolve())


def _import_problem(path: Path, kind: str) -> str:
    """Why the file cannot be judged, in one line; found out in a process of its own, which may hang or exit."""
    command = [sys.executable, "-m", "model.port", kind, str(path)]
    # Files, for a pipe would be open for as long as a process that the module starts.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(  # noqa: S603 - our own module
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            status = process.wait(IMPORT_S)
        except subprocess.TimeoutExpired:
            return f"{path}: does not import: still busy after {IMPORT_S} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said, complaint = (_last_line(file) for file in (out, err))
    if (status, said) == (0, f"{path} is a {kind} module"):
        return ""
    if status == 1 and complaint.startswith(f"{path}: "):
        return complaint
    return f"{path}: does not import: it ends the process"


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    return (file.read().splitlines() or [""])[-1]


def shown(path: str | Path) -> str:
    """Relative where that is shorter to read: inside the project."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
