"""The gate from outside, as a user calls it: what it says, what it leaves, how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from model.runs import identity, new_folder
from stateful_tests import options
from stateful_tests.gate import _why, telling
from stateful_tests.verdict import Check

ROOT = Path(__file__).parent.parent
STATEFUL = "stateful_tests/test_stateful.py"


class Run(NamedTuple):
    status: int
    out: str
    err: str
    results: Path

    @property
    def verdict(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.results / "latest" / "verdict.json").read_text())
        return data


def command(results: Path, *arguments: str) -> list[str]:
    quiet = ["-p", "no:cacheprovider", "--profile", "quick", "--results", str(results)]
    return [sys.executable, "-m", "pytest", "--gate", *quiet, *arguments]


def environment(results: Path) -> dict[str, str]:
    """Ours without what a pytest or tox around this one has put there, and with examples of its own."""
    theirs = ("PYTEST_", "FENCEPOST_", "TOX_", "FORCE_COLOR", "PY_COLORS")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return {**ours, "HYPOTHESIS_STORAGE_DIRECTORY": str(results / "hypothesis")}


def gate(results: Path, *arguments: str) -> Run:
    done = subprocess.run(  # noqa: S603 - our own gate
        command(results, "-n0", *arguments),
        cwd=ROOT,
        env=environment(results),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr, results)


def edited(tmp_path: Path, old: str, new: str, kind: str = "worker") -> Path:
    """A copy of the shipped file with one edit, in a folder of its own."""
    text = (ROOT / f"{kind}.py").read_text()
    assert text.count(old), f"the edit no longer applies: {old}"
    (tmp_path / "theirs").mkdir()
    file = tmp_path / "theirs" / "queue.py"
    file.write_text(text.replace(old, new))
    return file


def test_neither_option_judges_both(tmp_path: Path) -> None:
    run = gate(tmp_path, "stateful_tests/test_transitions.py")
    assert set(run.verdict["judged"]) == {"worker", "client"}
    assert {layer["kind"]: layer["word"] for layer in run.verdict["layers"] if layer["name"] == "transitions"} == {
        "worker": "valid",
        "client": "valid",
    }


@pytest.mark.parametrize("kind", ["worker", "client"])
def test_one_option_judges_that_one_only(tmp_path: Path, kind: str) -> None:
    run = gate(tmp_path, f"--{kind}", str(ROOT / f"{kind}.py"), "stateful_tests/test_transitions.py")
    assert list(run.verdict["judged"]) == [kind]
    assert {layer["kind"] for layer in run.verdict["layers"]} == {kind}


def test_a_wrong_client_is_invalid(tmp_path: Path) -> None:
    file = edited(tmp_path, "if seq > last + 1:", "if seq > last + 2:", "client")
    run = gate(tmp_path, "--client", str(file), "--first", "--profile", "ci")
    assert (run.status, run.out.splitlines()[-1]) == (1, "verdict: invalid"), run.out
    assert "must raise Gap" in run.verdict["failures"][0]["difference"]
    assert run.verdict["unanswered"] == ["ended at the first violation"]


def test_a_wrong_worker_is_invalid(tmp_path: Path) -> None:
    rollback = '"ROLLBACK" if con.total_changes == before else "COMMIT"'
    file = edited(tmp_path, rollback, '"COMMIT" if result else "ROLLBACK"')
    run = gate(tmp_path, "--worker", str(file), "--first", "--profile", "ci")
    assert (run.status, run.out.splitlines()[-1]) == (1, "verdict: invalid"), run.out
    first = run.verdict["failures"][0]
    assert "must be 'dead'" in first["difference"], first
    line = f"{first['layer']}: {first['title']}: {first['difference']}"
    assert line in run.out.splitlines()
    replay = next(text for text in run.out.splitlines() if text.startswith("  replay  "))
    assert replay == f"  replay  python -m stateful_tests.repro {first['token']} --worker {file}"


def test_what_the_first_violation_cuts_off_is_not_asked_for(tmp_path: Path) -> None:
    file = edited(tmp_path, "return math.floor(", "return 1 + math.floor(")
    long = f"{STATEFUL}::test_random_programs_of_the_stream_agree_with_the_model"
    options = ("-n2", "--first", "--profile", "soak")
    run = gate(
        tmp_path,
        "--worker",
        str(file),
        "--client",
        str(ROOT / "client.py"),
        *options,
        "stateful_tests/test_contract_retry_delay.py",
        long,
    )
    assert (run.status, len(run.verdict["failures"])) == (1, 1), run.out
    assert run.verdict["unanswered"] == ["only a part of the checks was chosen", "ended at the first violation"]


def test_a_seed_fixes_every_program(tmp_path: Path) -> None:
    first, second, other = (gate(tmp_path, "--seed", seed, STATEFUL).verdict["programs"] for seed in ("3", "3", "4"))
    assert first == second != other


FILES = {
    "an empty file": ("", "not a worker module: lacks retry_delay"),
    "a syntax error": ("def oh(:", "does not import: SyntaxError"),
    "an exit": ("import sys; sys.exit(0)", "does not import: SystemExit: 0"),
    "a hard exit": ("import os; os._exit(0)", "does not import: it ends the process"),
    "a missing function": ((ROOT / "worker.py").read_text().replace("def redrive(", "def redrives("), "lacks redrive"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_judged_is_one_line(tmp_path: Path, kind: str) -> None:
    text, says = FILES[kind]
    file = tmp_path / "theirs.py"
    file.write_text(text)
    run = gate(tmp_path, "--worker", str(file))
    assert run.status == 2
    told, verdict = run.err.splitlines()
    assert told.startswith(f"fencepost: {file}: ")
    assert says in told
    assert verdict == "verdict: unknown"
    assert run.verdict["verdict"] == "unknown"
    assert says in run.verdict["unanswered"][0]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    run = gate(tmp_path, "--worker", str(tmp_path / "none.py"))
    assert (run.status, run.err) == (2, f"fencepost: {tmp_path / 'none.py'}: no such file\nverdict: unknown\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--worker", ""], "--worker: no path is given"),
        (["--minutes", "1"], "--minutes: only --profile soak goes on for a given time"),
        (["--results", str(ROOT / "tox.ini")], f"--results: {ROOT / 'tox.ini'}: File exists"),
    ],
)
def test_a_senseless_option_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    run = gate(tmp_path, *arguments)
    assert (run.status, run.err) == (2, f"fencepost: {says}\nverdict: unknown\n")


def test_failures_that_are_shown_differ() -> None:
    def failure(test: str, parameter: str, difference: str) -> Check:
        return Check(f"{test}[{parameter}]", "worker", "contract", "invalid", 0, difference=difference)

    failures = [failure("a", "1", "x"), failure("a", "2", "y"), failure("b", "1", "x"), failure("c", "1", "z")]
    assert telling(failures) == [failures[0], failures[3]]


def test_the_latest_results_are_the_last(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    folders = [new_folder(tmp_path, 1) for _ in range(3)]
    assert len(set(folders)) == 3
    assert (tmp_path / "latest").resolve() == folders[-1]


def test_an_import_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "IMPORT_S", 1)
    file = tmp_path / "theirs.py"
    file.write_text("while True: pass")
    assert options._import_problem(file, "worker").endswith("does not import: still busy after 1 s")


def test_a_part_of_the_checks_is_never_valid(tmp_path: Path) -> None:
    run = gate(tmp_path, STATEFUL)
    assert (run.status, run.out.splitlines()[-1]) == (2, "verdict: unknown")
    assert "unanswered  only a part of the checks was chosen" in run.out.splitlines()


def test_help_teaches_the_gate_alone(tmp_path: Path) -> None:
    run = gate(tmp_path, "--help")
    assert (run.status, run.out) == (0, options.HELP)


REMEMBERS = """\
    known = vars(enqueue).setdefault(con.execute("PRAGMA database_list").fetchone()[2], {})
    if known.get(job["id"]) == job["qty"]:
        return False
    new = _write(con, insert)
    known[job["id"]] = job["qty"]
    return new"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    return _write(con, insert)", REMEMBERS, ("unknown", False, True)),
        ("_DUE} <= :now_ms", "_DUE} < :now_ms", ("invalid", True, False)),
    ],
)
def test_junit_tells_failures_from_errors(tmp_path: Path, old: str, new: str, words: tuple[str, bool, bool]) -> None:
    run = gate(tmp_path, "--worker", str(edited(tmp_path, old, new)), "stateful_tests/test_transitions.py")
    suite = ET.parse(tmp_path / "latest" / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    assert (run.verdict["verdict"], suite.get("failures") != "0", suite.get("errors") != "0") == words


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_module_that_hangs_is_given_up(tmp_path: Path, processes: str) -> None:
    file = edited(tmp_path, '    owner = _identifier("owner", owner)\n', "    while True: pass\n")
    run = gate(
        tmp_path, "--worker", str(file), "-n", processes, "--timeout", "1", "stateful_tests/test_contract_claim.py"
    )
    assert (run.status, run.verdict["verdict"]) == (2, "unknown")
    assert "given up after 3 checks that did not come back" in run.verdict["unanswered"]


def test_the_reason_in_a_group_is_its_innermost() -> None:
    group = ExceptionGroup("while closing", [ValueError("one"), ExceptionGroup("more", [OSError("-two")])])
    text = "".join(traceback.format_exception(group))
    report = pytest.TestReport("a.py::test", ("a.py", 1, "test"), {}, "failed", text, "call")
    assert text.rstrip().endswith("--")
    assert _why(report) == "OSError: -two"


STOPPER = """\
import pytest

def pytest_runtest_call():
    pytest.exit("bye", returncode={status})
"""


Plug = Callable[[str], tuple[str, str]]


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Makes a plugin of pytest's of a text: the options that load it."""

    def plug(text: str) -> tuple[str, str]:
        (tmp_path / "plugged.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "-p", "plugged"

    return plug


@pytest.mark.parametrize("status", [0, 1, 5, 7])
def test_an_odd_end_of_pytest_is_unknown(tmp_path: Path, plugged: Plug, status: int) -> None:
    run = gate(tmp_path, *plugged(STOPPER.format(status=status)))
    assert (run.status, run.verdict["verdict"]) == (2, "unknown"), run.out
    assert ET.parse(tmp_path / "latest" / "junit.xml").getroot()[0].get("errors") == "1"  # noqa: S314 - our own file


SAVES = """\
def pytest_collection_finish():
    with open({file!r}, "a") as file:
        file.write("# saved")
"""


def test_a_file_that_is_saved_meanwhile_is_unknown(tmp_path: Path, plugged: Plug) -> None:
    file = edited(tmp_path, "", "")
    before = identity(file)
    saves = plugged(SAVES.format(file=str(file)))
    run = gate(tmp_path, "--worker", str(file), *saves, "stateful_tests/test_contract_retry_delay.py")
    assert f"{file} was changed during the run" in run.verdict["unanswered"]
    assert run.verdict["judged"] == {"worker": before} != {"worker": identity(file)}


BREAKS = """\
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if collector.nodeid == {nodeid!r}:
        report.outcome, report.longrepr, report.result = "failed", "broken", []
    return report
"""


@pytest.mark.parametrize("processes", ["-n0", "-n1"])
def test_checks_that_cannot_be_collected_are_missed(tmp_path: Path, plugged: Plug, processes: str) -> None:
    nodeid = "stateful_tests/test_contract_claim.py"
    chosen = (nodeid, "stateful_tests/test_contract_retry_delay.py")
    run = gate(tmp_path, processes, *plugged(BREAKS.format(nodeid=nodeid)), "--continue-on-collection-errors", *chosen)
    assert f"{nodeid}: could not be collected" in run.verdict["unanswered"], run.out


def test_half_a_surrogate_pair_hides_no_violation(tmp_path: Path) -> None:
    line = '    owner = _identifier("owner", owner)\n'
    file = edited(tmp_path, line, f'    if "\\ud800" in str(owner):\n        raise OSError(owner)\n{line}')
    run = gate(tmp_path, "--worker", str(file), "-n1", "--profile", "ci", "stateful_tests/test_contract_values.py")
    assert (run.status, run.verdict["verdict"]) == (1, "invalid"), run.out
    assert "OSError" in run.verdict["failures"][0]["difference"]


HARDSHIPS = {
    "no room is left for queue files in ": "from stateful_tests import running\nrunning.NO_ROOM = 2**80\n",
    "the gate was stopped meanwhile": (
        "import os, signal\ndef pytest_runtest_call(): os.kill(os.getpid(), signal.SIGCONT)\n"
    ),
}


@pytest.mark.parametrize("says", HARDSHIPS)
def test_a_hardship_is_nobodys_fault(tmp_path: Path, plugged: Plug, says: str) -> None:
    file = edited(tmp_path, "return math.floor(", "return 1 + math.floor(")
    run = gate(
        tmp_path, "--worker", str(file), *plugged(HARDSHIPS[says]), "stateful_tests/test_contract_retry_delay.py"
    )
    assert (run.status, run.verdict["verdict"]) == (2, "unknown"), run.out
    assert any(says in line for line in run.verdict["unanswered"])


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder with settings and a test of somebody else's."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    (tmp_path / "test_theirs.py").write_text(
        "import warnings\n\ndef test(tmp_path):\n"
        "    warnings.warn('old', DeprecationWarning)\n    assert 'pytest-of-' in str(tmp_path)\n"
    )
    return tmp_path


def beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What pytest does there, where Fencepost is installed."""
    return subprocess.run(  # noqa: S603 - pytest
        [sys.executable, "-m", "pytest", "-p", "stateful_tests.plugin", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment(folder) | {"PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("processes", ["-n0", "-n1"])
def test_any_other_pytest_is_left_alone(theirs: Path, processes: str) -> None:
    done = beside(theirs, processes)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "1 passed, 1 warning" in done.stdout


def test_a_gate_has_settings_of_its_own(theirs: Path) -> None:
    done = beside(theirs, "--gate", "-c", "pytest.ini", "--results", str(theirs / "runs"))
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[0]
        == f"fencepost: -c pytest.ini: the settings are pyproject.toml of {ROOT}, and no others"
    )
    assert done.stderr.splitlines()[1:] == ["verdict: unknown"]


def test_a_check_that_judges_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("import pytest\n\n@pytest.mark.layer('contract')\ndef test(): pass\n")
    done = beside(tmp_path, "-c", str(ROOT / "pyproject.toml"), "-n0", "test_nothing.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "a check of the layer contract that asks for no module" in done.stderr


SOAKED = """
import time
import pytest

@pytest.mark.layer("storm")
@pytest.mark.parametrize("check", ["one", "other"])
def test(worker, soak, check):
    assert sum(1 for _ in soak if time.sleep(0.05) is None) > 2
"""


def test_checks_that_soak_share_the_time(tmp_path: Path) -> None:
    (tmp_path / "test_soaked.py").write_text(SOAKED)
    settings = ("-c", str(ROOT / "pyproject.toml"), "-n0", "--profile", "soak", "--minutes", "0.05")
    done = beside(tmp_path, *settings, "test_soaked.py")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
