"""The action as another repository uses it: its steps run here as a runner runs them, its workflows read."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateful_tests.composite import EXPRESSION, SHELLS, Job, Outputs

ROOT = Path(__file__).parent.parent
SHOP = ROOT / "examples" / "shop"
ACTION = ROOT / "action.yml"
WORKFLOWS = (ROOT / ".github" / "workflows" / "ci.yml", SHOP / ".github" / "workflows" / "gate.yml")
CLAIMS = "stateful_tests/test_contract_claim.py"
OURS = ("./", "OWNER/fencepost@main")


def read(file: Path) -> dict[str, Any]:
    """Every scalar as a str, so that `on` stays a word."""
    data: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - it makes only str, list, dict
    return data


STEPS: list[dict[str, Any]] = read(ACTION)["runs"]["steps"]
INPUTS: dict[str, Any] = read(ACTION)["inputs"]
DEFAULTS: Outputs = {name: given["default"] for name, given in INPUTS.items()}


# --- as it runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder for what is too large for one in memory."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def job(temp: Path, **given: str) -> Job:
    """A job in a copy of the example's repository."""
    workspace = temp / "shop"
    shutil.copytree(SHOP, workspace, dirs_exist_ok=True)
    uses = {
        "actions/setup-python": lambda _: {"python-path": sys.executable},
        "actions/upload-artifact": lambda artifact: artifact,
    }
    inputs = DEFAULTS | {name.replace("_", "-"): value for name, value in given.items()}
    return Job(ROOT, workspace, temp, inputs, uses)


def commands(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("::")]


@pytest.mark.timeout(600)  # it makes an environment, and four gates run in it
def test_the_steps_judge_the_users_file(disk: Path) -> None:
    right = job(disk, worker="worker.py", profile="quick", seed="1")
    right.run(STEPS)
    assert (right.status, commands(right.log)) == (0, []), right.log
    assert right.summary.startswith("## Fencepost: valid\n\nworker.py · profile quick · seed 1\n\n| judged | layer |")
    assert right.steps["summary"]["verdict"] == "valid"
    assert {"verdict.json", "junit.xml"} <= {file.name for file in uploaded(right).iterdir()}

    environment = {name: right.steps[name] for name in ("python", "environment")}
    part = f"--no-header\n{CLAIMS}\n"  # a part is enough to be invalid
    wrong = job(disk, worker="worker_wrong.py", profile="quick", seed="1", artifact="mine", arguments=part)
    wrong.steps.update(environment)
    wrong.run(STEPS)
    assert (wrong.status, len(commands(wrong.log))) == (1, 1), wrong.log
    assert "platform " not in wrong.log
    (error,) = commands(wrong.log)
    difference = quoted()
    assert error.startswith("::error file=worker_wrong.py,title=Fencepost%3A invalid::")
    assert error.endswith(f": {difference}")
    assert f"```text\n{difference}\n```" in wrong.summary
    assert re.search(r"\ntox run -e repro -- w:quick:1:\S+ --worker worker_wrong.py\n", wrong.summary)
    assert wrong.steps["summary"]["verdict"] == "invalid"
    assert wrong.steps["upload"]["name"] == "mine"
    assert (uploaded(wrong) / "verdict.json").is_file()

    missing = job(disk, worker="none.py")
    missing.steps.update(environment)
    missing.run(STEPS)
    assert missing.status == 2, missing.log
    assert commands(missing.log) == [
        f"::error file=none.py,title=Fencepost%3A unknown::{missing.workspace / 'none.py'}: no such file"
    ]
    assert missing.summary.startswith("## Fencepost: unknown\n")
    assert (uploaded(missing) / "verdict.json").is_file()

    mistyped = job(disk, worker="worker.py", profile="fast")
    mistyped.steps.update(environment)
    mistyped.run(STEPS)
    assert mistyped.status == 4, mistyped.log
    assert "invalid choice: 'fast'" in mistyped.log
    assert commands(mistyped.log) == ["::error title=Fencepost::the gate did not start; the step Judge says why"]
    assert "upload" not in mistyped.steps


def uploaded(done: Job) -> Path:
    return Path(done.steps["upload"]["path"])


def test_nothing_to_judge_is_refused_at_once(tmp_path: Path) -> None:
    idle = job(tmp_path)
    idle.run(STEPS)
    assert (idle.status, commands(idle.log)) == (
        2,
        ["::error title=Fencepost::name what to judge, by the input worker, client or both"],
    )
    assert list(idle.steps) == [""]


# --- the example ------------------------------------------------------------------------------------------------------


def quoted() -> str:
    """The difference that the example's README shows."""
    lines = (SHOP / "README.md").read_text().splitlines()
    return next(line for line in lines if line.startswith("worker.") and ", must " in line)


def test_the_wrong_example_differs_by_one_sign() -> None:
    right, wrong = ((SHOP / f"{name}.py").read_text().splitlines() for name in ("worker", "worker_wrong"))
    (edit,) = ((a, b) for a, b in zip(right, wrong, strict=True) if a != b)
    assert edit[1] == edit[0].replace("now_ms < ", "now_ms <= ")


def test_the_readme_and_the_example_agree() -> None:
    snippet = re.search(r"```yaml\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert snippet is not None
    (gate,) = read(WORKFLOWS[1])["jobs"].values()
    assert len(snippet[1].splitlines()) == 5
    assert yaml.load(snippet[1], Loader=yaml.BaseLoader) == gate["steps"]  # noqa: S506 - as above


# --- as it is written -------------------------------------------------------------------------------------------------

PINNED = re.compile(r"uses: [\w/-]+@[0-9a-f]{40} # v[0-9.]+$")
STEP_KEYS = {"name", "id", "if", "uses", "with", "run", "shell", "env", "working-directory", "continue-on-error"}


def test_the_action_has_the_form_of_one() -> None:
    action = read(ACTION)
    assert set(action) == {"name", "description", "branding", "inputs", "outputs", "runs"}
    assert set(action["runs"]) == {"using", "steps"}
    assert action["runs"]["using"] == "composite"
    assert all(set(given) == {"description", "default"} for given in INPUTS.values())
    assert all(set(given) == {"description", "value"} for given in action["outputs"].values())
    for step in STEPS:
        assert set(step) <= STEP_KEYS
        assert ("run" in step) != ("uses" in step)
        assert "uses" in step or step["shell"] in SHELLS


def test_no_script_holds_an_expression() -> None:
    scripts = [step["run"] for step in STEPS if "run" in step]
    scripts += [step["run"] for file in WORKFLOWS for step in steps_of(file) if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_every_reference_has_its_target() -> None:
    text = ACTION.read_text()
    known: dict[str, str] = {}
    for step in STEPS:
        for name, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", str(step)):
            assert f'echo "{output}=' in known[name] or name == "python", f"{step['name']}: {name}.{output}"
        known[step.get("id", "")] = step.get("run", "")
    for name, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", str(read(ACTION)["outputs"])):
        assert f'echo "{output}=' in known[name]
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(INPUTS)


def test_foreign_actions_are_pinned_by_commit() -> None:
    lines = [line.strip() for file in (ACTION, WORKFLOWS[0]) for line in file.read_text().splitlines()]
    uses = [line.removeprefix("- ") for line in lines if "uses:" in line and "uses: ./" not in line]
    assert uses
    assert [line for line in uses if not PINNED.match(line)] == []


def steps_of(file: Path) -> list[dict[str, Any]]:
    return [step for each in read(file)["jobs"].values() for step in each["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_asks_for_little(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {"contents": "read"}
    assert (
        {"name", "on", "permissions", "jobs"} <= set(workflow) <= {"name", "on", "permissions", "jobs", "concurrency"}
    )
    for each in workflow["jobs"].values():
        assert each["runs-on"] == "ubuntu-latest"
        assert int(each["timeout-minutes"])
        assert all(set(step) <= STEP_KEYS and ("run" in step) != ("uses" in step) for step in each["steps"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_uses_inputs_that_there_are(file: Path) -> None:
    uses = [step for step in steps_of(file) if step.get("uses") in OURS]
    assert uses
    for step in uses:
        assert set(step["with"]) <= set(INPUTS)
        assert set(step["with"]) & {"worker", "client"}


def test_ci_runs_the_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text().splitlines()
    commands = [line for line in readme if line.startswith("python3 -m venv .venv && ")]
    ran = [step.get("run") for step in read(WORKFLOWS[0])["jobs"]["test"]["steps"]]
    assert len(commands) == 2
    assert set(commands) <= set(ran)


def test_ci_runs_every_python_that_tox_knows() -> None:
    pythons = read(WORKFLOWS[0])["jobs"]["test"]["strategy"]["matrix"]["python"]
    tox = (ROOT / "tox.ini").read_text()
    known = re.findall(r"py3([0-9]+)", re.findall(r"^\[testenv:\{(py.+)\}\]$", tox, re.MULTILINE)[0])
    assert pythons == [f"3.{minor}" for minor in known]
    assert DEFAULTS["python-version"] in pythons


def test_expressions_are_of_a_form_that_is_known(tmp_path: Path) -> None:
    here = job(tmp_path)
    texts = EXPRESSION.findall(ACTION.read_text()) + [step["if"] for step in STEPS if "if" in step]
    assert texts
    assert all(isinstance(here.value(text), str | bool) for text in texts)
