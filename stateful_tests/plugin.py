"""The pytest plugin: ``--gate``, ``--worker``, ``--client``, ``--seed``, profiles, and the verdict at the end.

pytest is the only runner: xdist spreads the checks, JUnit reports them. A check is a test that carries the mark
``layer``; under ``--gate`` only these run. Whatever random choice a check makes, it makes from the fixture ``seed``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from model import queue, scratch, store
from model.contract import KINDS, WORKER
from model.counterexample import Violation
from model.queue import Worker
from model.store import Client
from stateful_tests import results
from stateful_tests.lockstep import Transcript
from stateful_tests.soak import note, progress, rounds
from stateful_tests.verdict import LAYERS, Check, Verdict, Word, judge, table

ROOT: Final = Path(__file__).resolve().parent.parent
SETTINGS: Final = ROOT / "pyproject.toml"
IMPORT_SECONDS: Final = 30
SAMPLED: Final = ("contract", "schedules", "atomicity", "delivery", "storm", "syscalls")
SOAK_MINUTES: Final = 10.0
SETTLED: Final = "fencepost"
END_AT_FIRST: Final = "ended at the first violation"
GIVEN_UP_AFTER: Final = 3
TIMED_OUT: Final = "from pytest-timeout"
SHOWN_IN_FULL: Final = 3
SHOWN_IN_SHORT: Final = 12

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
  NODEID          one check alone, as a failure names it; part of the checks never makes a verdict valid

Exit status: 0 valid, 1 invalid, 2 unknown (something kept a layer from running to its end); 4 is pytest's, for an
option that it does not know.
Results: runs/latest/verdict.json for programs, runs/latest/junit.xml for CI; --results DIR puts them elsewhere.
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


# --- options ----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
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


def _minutes(given: str) -> float:
    minutes = float(given)
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of minutes above 0")
    return minutes


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Settle what would make every check fail alike, before any of them runs."""
    if is_xdist_worker(config):
        return None
    if config.inipath != SETTINGS:
        # pytest took a path on the command line, such as that of --worker, for the place to look for its settings.
        command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), *config.invocation_params.args]
        os.execv(sys.executable, command)  # noqa: S606 - the same command, told where its settings are
    if config.option.gate and config.option.help:
        sys.stdout.write(HELP)
        return 0
    option = config.option
    option.seed = random.SystemRandom().randrange(2**32) if option.seed is None else option.seed
    option.profile = option.profile or ("ci" if option.gate else "quick")
    given = [name for name in KINDS if getattr(option, name) is not None]
    problem = _usage_problem(option)
    option.judged = given if option.gate and given else list(KINDS)
    for name in KINDS:
        path = ROOT / f"{name}.py" if name not in given else config.invocation_params.dir / getattr(option, name)
        setattr(option, name, str(path.resolve()))
    problems = (_import_problem(Path(getattr(option, name)), name) for name in option.judged)
    if problem := problem or next(filter(None, problems), ""):
        sys.stderr.write(f"fencepost: {problem}\n")
        if option.gate:
            verdict = judge((), option.judged, reasons=[problem])
            results.write(results.new_folder(Path(option.results), option.seed), verdict, option)
            sys.stderr.write("verdict: unknown\n")
        return 2
    return None


def _usage_problem(option: argparse.Namespace) -> str:
    for name in KINDS:
        if getattr(option, name) is not None and not getattr(option, name).strip():
            return f"--{name}: no path is given"
    if option.minutes is not None and option.profile != "soak":
        return "--minutes: only --profile soak goes on for a given time"
    return ""


def _import_problem(path: Path, kind: str) -> str:
    """Why the file cannot be judged, in one line; found out in a process of its own, which may hang or exit."""
    command = [sys.executable, "-m", "model.port", kind, str(path)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, cwd=ROOT, capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{path}: does not import: still busy after {IMPORT_SECONDS} s"
    if done.stdout.rstrip().endswith(f"is a {kind} module"):
        return ""
    return (done.stderr.strip().splitlines() or [f"{path}: does not import: it ends the process"])[-1]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "layer(name): a check of this layer of the gate")
    option = config.option
    if is_xdist_worker(config):
        vars(option).update(config.workerinput[SETTLED])  # type: ignore[attr-defined]
        if option.gate:
            config.pluginmanager.register(Ending(config), "fencepost-ending")
        return
    option.base = option.basetemp
    option.soak_until = time.time() + 60 * (option.minutes or SOAK_MINUTES) if option.profile == "soak" else 0.0
    if option.basetemp is None:
        option.base = option.basetemp = scratch.make()
        config.add_cleanup(lambda: shutil.rmtree(option.base, ignore_errors=True))
    if option.gate and not option.collectonly:
        config.pluginmanager.register(Gate(config), "fencepost-gate")
        reason_file(config).unlink(missing_ok=True)
        config.pluginmanager.register(Ending(config), "fencepost-ending")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - xdist's, without types
    """Hand the settled options to a process of xdist, which parses the command line anew."""
    option = node.config.option
    settled = {name: getattr(option, name) for name in (*KINDS, "judged", "seed", "profile", "first", "soak_until")}
    node.workerinput[SETTLED] = {**settled, "base": str(option.base)}


def is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


# --- checks -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def worker_path(request: pytest.FixtureRequest) -> Path:
    """Where the lease queue under test lies, for a process of its own."""
    return Path(request.config.option.worker)


@pytest.fixture(scope="session")
def worker(worker_path: Path) -> Worker:
    """The lease queue under test."""
    return queue.load(worker_path)


@pytest.fixture(scope="session")
def client_path(request: pytest.FixtureRequest) -> Path:
    """Where the receiver under test lies, for a process of its own."""
    return Path(request.config.option.client)


@pytest.fixture(scope="session")
def client(client_path: Path) -> Client:
    """The receiver under test."""
    return store.load(client_path)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this check: the run's seed and the check's name decide it, not the order of the checks."""
    text = f"{request.config.option.seed}:{request.node.nodeid}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


@pytest.fixture
def did(request: pytest.FixtureRequest) -> Counter[str]:
    """What this check did, in figures: the table adds them up by layer."""
    counter: Counter[str] = Counter()
    request.node.user_properties.append(("did", counter))
    return counter


@pytest.fixture
def covered(request: pytest.FixtureRequest) -> dict[str, list[int]]:
    """By kind, what this check did and what there is to do in its layer: the verdict adds the first up."""
    pairs: dict[str, list[int]] = {}
    request.node.user_properties.append(("covered", pairs))
    return pairs


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Transcript:
    """Of all that this check performs: the same seed gives the same transcript."""
    transcript = Transcript()
    request.node.user_properties.append(("transcript", transcript))
    return transcript


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What this process starts can be interrupted, even if a shell that started it in the background forbids that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Profile:
    return PROFILES[request.config.option.profile]


@pytest.fixture
def faults(profile: Profile) -> int:
    """How many system calls a check faults, at most."""
    return profile.faults


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> Iterator[int]:
    """Round numbers: just 0, or under the soak profile as many as there is time for."""
    option = request.config.option
    return rounds(option.soak_until, Path(option.base), request.node.name)


@pytest.fixture
def states_done(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Call it with the number of states done so far: the soak profile shows it now and then."""
    option = request.config.option
    if not option.soak_until:
        return lambda _: None
    return functools.partial(note, Path(option.base), "states", request.node.name)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A gate does not read test files that have no check: to collect them costs more than a few of its checks."""
    if config.option.gate and collection_path.suffix == ".py" and b"layer(" not in collection_path.read_bytes():
        return True
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shard" in metafunc.fixturenames:
        metafunc.parametrize("shard", range(PROFILES[metafunc.config.option.profile].shards))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if layer := layer_of(item):
            item.user_properties.append(("layer", layer))
            item.user_properties.append(("kind", kind_of(item)))
        if config.option.soak_until and {"soak", "states_done"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(0))
    if config.option.gate:
        checks = [item for item in items if layer_of(item) and kind_of(item) in config.option.judged]
        checks = _sample(checks, config.option)
        chosen = set(checks)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = sorted(checks, key=lambda item: LAYERS.index(layer_of(item)))


def _sample(checks: list[pytest.Item], option: argparse.Namespace) -> list[pytest.Item]:
    """All of them, or in the layers that are sampled those that the seed draws: of each test one at least, so that a
    check that is asked for alone is always made.
    """
    every = PROFILES[option.profile].every
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in checks:
        by_test[item.nodeid.partition("[")[0]].append(item)
    chosen: set[str] = set()
    for test, items in by_test.items():
        most = -(-len(items) // every) if layer_of(items[0]) in SAMPLED else len(items)
        draw = random.Random(f"{option.seed}:{test}")  # noqa: S311 - a sample, not a secret
        chosen.update(item.nodeid for item in draw.sample(items, most))
    return [item for item in checks if item.nodeid in chosen]


def layer_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("layer")
    return str(mark.args[0]) if mark else ""


def kind_of(item: pytest.Item) -> str:
    """What the check judges: the module that it asks for."""
    return next((name for name in KINDS if f"{name}_path" in getattr(item, "fixturenames", ())), "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A violation is reported as its own text, and as data beside it."""
    report = yield
    report.user_properties = [(name, _plain(value)) for name, value in report.user_properties]
    violation = find_violation(call.excinfo.value) if call.excinfo else None
    if violation is not None:
        report.longrepr = str(violation)
        data = {"difference": violation.difference, "program": list(violation.program)}
        report.user_properties.append(("violation", data))
        item.user_properties.append((results.OUTCOME, "violation"))
    return report


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a check notes down
    """What xdist can send and JUnit can print."""
    if isinstance(value, Counter):
        return dict(value)
    return str(value) if isinstance(value, Transcript) else value


def find_violation(error: BaseException) -> Violation | None:
    """The violation itself, or the first one in a group: what was seen once was seen."""
    if isinstance(error, Violation):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_violation, error.exceptions)), None)
    return None


class Ending:
    """Ends the run for what one check has shown: in this process, and by way of a file in every other one.

    The first violation, if that was asked for; and a module that hangs, of which the rest would take hours.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.first, self.folder, self.reason = config.option.first, Path(config.option.base), reason_file(config)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.first and _is_violation(report):
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


# --- the verdict ------------------------------------------------------------------------------------------------------


class Gate:
    """Gathers the reports in the process that the user started, and speaks the verdict last of all."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected: set[str] = set()
        self.reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self.folder = results.new_folder(Path(config.option.results), config.option.seed)
        self._stack = contextlib.ExitStack()
        option = config.option
        option.tbstyle, option.reportchars = "no", "N"
        option.xmlpath = option.xmlpath or str(self.folder / "junit.xml")
        # What a run leaves whose process the judged module ends.
        results.write(self.folder, judge((), option.judged, reasons=["the run did not come to its end"]), option)

    def pytest_sessionstart(self) -> None:
        option = self.config.option
        if option.soak_until:
            self._stack.enter_context(progress(option.soak_until, Path(option.base)))

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
        return result

    def _verdict(self, exitstatus: int) -> Verdict:
        checks = [_check(nodeid, reports) for nodeid, reports in self.reports.items()]
        ended = reason_file(self.config).exists()
        missing = [] if ended else sorted(self.collected - {check.nodeid for check in checks})
        known = (check for check in checks if check.layer in LAYERS and check.kind in KINDS)
        return judge(known, self.config.option.judged, missing, self._reasons(exitstatus))

    def _reasons(self, exitstatus: int) -> list[str]:
        config, option = self.config, self.config.option
        chosen = option.keyword or option.markexpr or option.deselect or option.ignore or option.ignore_glob
        again = getattr(option, "lf", False) or getattr(option, "stepwise", False)
        partial = chosen or again or config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        status = pytest.ExitCode(exitstatus)
        ended = status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        early = f"pytest ended early: {status.name.lower().replace('_', ' ')}"
        early = reason_file(config).read_text() if reason_file(config).exists() else early
        return ["only a part of the checks was chosen"] * bool(partial) + [early] * ended

    # --- what is written ----------------------------------------------------------------------------------------------

    def _write(self, verdict: Verdict) -> None:
        option = self.config.option
        results.write(self.folder, verdict, option)
        results.tell_errors_apart(Path(option.xmlpath))
        terminal = self.config.get_terminal_writer()
        terminal.line()
        for line, colour in self._lines(verdict):
            terminal.line(line, **({colour: True} if colour else {}))

    def _lines(self, verdict: Verdict) -> Iterator[tuple[str, str]]:
        shown = _telling(verdict.failures)
        for check in shown:
            yield from self._failure(check)
        others = [f"{check.layer}: {check.title}" for check in verdict.failures if check not in shown]
        yield from _in_short(others, "also")
        yield from _in_short(verdict.unanswered, "unanswered")
        for line in table([layer for layer in verdict.layers if layer.checks] or verdict.layers):
            yield line, ""
        for line in verdict.not_tried:
            yield f"not tried here: {line}", ""
        yield "", ""
        option = self.config.option
        yield f"judged   {', '.join(_shown(getattr(option, name)) for name in option.judged)}", ""
        programs = f" (programs {verdict.transcript[:12]})" if verdict.transcript else ""
        yield f"seed     {option.seed}{programs}", ""
        yield f"results  {_shown(self.folder)}", ""
        colour = {"valid": "green", "invalid": "red", "unknown": "yellow"}[verdict.word]
        yield f"verdict: {verdict.word}", colour

    def _failure(self, check: Check) -> Iterator[tuple[str, str]]:
        option = self.config.option
        yield f"{check.layer}: {check.title}: {check.difference}", "red"
        for line in check.program:
            yield f"    {line}", ""
        gate = (
            ["tox", "run", "-e", "gate", "--"] if "TOX_ENV_NAME" in os.environ else ["python", "-m", "pytest", "--gate"]
        )
        words = [*gate, f"--{check.kind}", _shown(getattr(option, check.kind))]
        words += ["--profile", option.profile, "--seed", str(option.seed), "-n0", check.nodeid]
        yield f"  replay  {shlex.join(words)}", ""
        yield f"  report  {_shown(self.folder / 'verdict.json')}", ""
        yield "", ""


def _check(nodeid: str, reports: list[pytest.TestReport]) -> Check:
    """Valid needs a passed setup, call and teardown; a violation in any of them decides."""
    properties: dict[str, Any] = dict(item for report in reports for item in report.user_properties)
    violation = properties.get("violation")
    stopped = [report for report in reports if not report.passed and not _is_violation(report)]
    whole = {report.when for report in reports} == {"setup", "call", "teardown"}
    word: Word = "invalid" if violation else "valid" if whole and not stopped else "unknown"
    why = _why(stopped[0]) if stopped else "" if whole else "did not run to its end"
    return Check(
        nodeid,
        kind=properties.get("kind", WORKER.name),
        layer=properties.get("layer", LAYERS[0]),
        word=word,
        seconds=sum(report.duration for report in reports),
        did=properties.get("did", {}),
        covered=properties.get("covered", {}),
        difference=violation["difference"] if violation else "",
        program=violation["program"] if violation else (),
        transcript=properties.get("transcript", ""),
        why=why,
        skipped=bool(stopped) and all(report.skipped for report in stopped),
    )


def _is_violation(report: pytest.TestReport) -> bool:
    return any(name == "violation" for name, _ in report.user_properties)


def _why(report: pytest.TestReport) -> str:
    """The last line that says anything: an error's own, a skip's reason, what xdist says of a dead process."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    lines = [line.strip() for line in report.longreprtext.splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (errors or lines or ["failed without a word"])[0 if errors else -1]


def _telling(failures: Sequence[Check]) -> list[Check]:
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


def _shown(path: str | Path) -> str:
    """Relative where that is shorter to read: inside the project."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
