"""``python -m chaos`` from the outside: what it lists, finds, repeats and says, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import psutil
import pytest

from chaos import __main__ as chaos
from chaos.experiments import EXPERIMENTS, Experiment
from chaos.killer import ROOT
from chaos.kills import DEATHS, Kill, chosen, parse, turns
from chaos.variation import vary
from model import scratch

SHIPPED = ROOT / "worker.py"
WAIT_S = 40
COMMITS_EARLY = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    return right(con, owner, now_ms, lease_ms, fault and (lambda hook: (con.execute("COMMIT"), fault(hook))))
"""

ENDS_ITSELF = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    return os._exit(3) if fault else right(con, owner, now_ms, lease_ms)
"""


def module(folder: Path, after: str = "") -> Path:
    """A copy of the shipped module with something after it; no other process has its name in its command."""
    path = folder / "judged.py"
    path.write_text(f"{SHIPPED.read_text()}\n{after}\n")
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaos", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own


def report(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == chaos.STATUS[answer["verdict"]]
    return answer


# --- list, and the names ----------------------------------------------------------------------------------------------


def test_the_list_has_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == list(DEATHS)
    assert ["first-claim.after-claim", "after-claim", "lost"] in rows
    assert ["first-enqueue.commit-done", "commit-done", "kept"] in rows


def test_the_list_is_data_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["list", "--json"]) == 0
    assert {row["name"]: row["change"] for row in json.loads(capsys.readouterr().out)}.keys() == DEATHS.keys()


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        chaos.main(["--help"])
    assert ended.value.code == 0
    assert "python -m chaos replay 1:3:first-claim.after-claim --worker mine.py" in capsys.readouterr().out


def test_a_selection_is_a_part_of_names() -> None:
    assert chosen("") == list(DEATHS)
    assert chosen("first claim.after") == [name for name in DEATHS if "first-claim.after" in name]
    assert chosen("first-claim.after-claim") == ["first-claim.after-claim"]


# --- what is drawn ----------------------------------------------------------------------------------------------------


def names_of(seed: int, turn: int) -> list[str]:
    return [turn.kill.name for turn in itertools.islice(turns(seed, list(DEATHS), turn), len(DEATHS))]


def test_each_round_goes_through_every_experiment() -> None:
    assert sorted(names_of(7, 0)) == sorted(names_of(7, 1)) == sorted(DEATHS)
    assert len({tuple(names_of(*round_)) for round_ in ((7, 0), (7, 1), (8, 0))}) == 3


def test_a_scene_is_done_by_one_process() -> None:
    groups = {(turn.group, DEATHS[turn.kill.name].scene) for turn in itertools.islice(turns(7, list(DEATHS)), 500)}
    assert len(groups) == len({group for group, _ in groups})


def test_what_is_found_at_once_is_found_without_company() -> None:
    assert Kill(7, 0, "first-claim.after-claim").death() == DEATHS["first-claim.after-claim"]
    assert any(Kill(7, turn, "first-claim.after-claim").death() != DEATHS["first-claim.after-claim"] for turn in (1, 2))


def test_a_reader_may_leave() -> None:
    command = [sys.executable, "-m", "chaos", "list"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        cast("IO[str]", process.stdout).close()
        _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")


def test_a_selection_does_not_change_a_kill() -> None:
    (kill,) = (turn.kill for turn in itertools.islice(turns(7, ["first-claim.after-claim"], 3), 1))
    assert kill in [turn.kill for turn in itertools.islice(turns(7, list(DEATHS), 3), len(DEATHS))]


def test_a_token_holds_the_whole_kill() -> None:
    kill = Kill(2**32, 17, "first-claim.after-claim")
    assert parse(str(kill)) == kill
    assert parse(str(kill)).death() == kill.death()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_company_makes_no_experiment_void(experiment: Experiment) -> None:
    varied = [vary(experiment, random.Random(seed)) for seed in range(20)]  # noqa: S311 - repeatable
    assert all(one.outcomes()[0] != one.outcomes()[1] and one.hook == experiment.hook for one in varied)
    assert sum(one != experiment for one in varied) > 15


# --- run and replay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["", "first-claim"], ids=["one round", "several rounds"])
def test_a_seed_gives_the_same_kills_again(selection: str) -> None:
    asked = ["run", selection, "--kills", 50, "--seed", 5]
    once, again = report(*asked), report(*asked, "--jobs", 1)
    assert once["kills"] == again["kills"] == 50
    assert once["verdict"] == again["verdict"] == "valid"
    assert once["digest"] == again["digest"]
    assert once["observed"] == again["observed"]


def test_other_seeds_give_other_kills() -> None:
    digests = {report("run", "first-claim", "--kills", 3, "--seed", seed)["digest"] for seed in (1, 2)}
    assert len(digests) == 2


def test_a_run_ends_with_its_time() -> None:
    answer = report("run", "--minutes", 0.02)
    assert answer["kills"] > 0
    assert answer["verdict"] == "valid"


def test_the_text_ends_with_the_verdict() -> None:
    done = run("run", "first-claim.after", "--kills", 2, "--seed", 1)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0] == "observed"
    assert [line for line in lines if line.startswith("  power loss: not guaranteed")]
    assert lines[-1] == "verdict: valid"


def test_a_wrong_worker_is_found_and_found_again(tmp_path: Path) -> None:
    path = module(tmp_path, COMMITS_EARLY)
    found = run("run", "claim", "--seed", 1, "--worker", path)
    first = found.stdout.splitlines()[0]
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == "verdict: invalid"
    (command,) = (line.split() for line in found.stdout.splitlines() if line.startswith("  replay  "))
    assert command[1:5] == ["python", "-m", "chaos", "replay"]
    again = run(*command[4:])
    assert again.returncode == 1
    assert again.stdout.splitlines()[0] == first


def test_the_first_violation_is_the_same_for_many(tmp_path: Path) -> None:
    path = module(tmp_path, COMMITS_EARLY)
    answers = [report("run", "claim", "--seed", 2, "--jobs", jobs, "--worker", path) for jobs in (1, 3)]
    assert answers[0]["violation"] == answers[1]["violation"]
    assert answers[0]["violation"]["program"]


def test_a_module_that_must_not_be_forked_is_not(tmp_path: Path) -> None:
    path = module(tmp_path, "CON = sqlite3.connect(':memory:')")
    answer = report("run", "after", "--kills", 2, "--worker", path)
    assert answer["verdict"] == "valid"
    (note,) = answer["notes"]
    assert note.startswith("fresh interpreters instead of forks: the module opens an SQLite connection")


def test_a_process_that_ends_itself_makes_unknown(tmp_path: Path) -> None:
    path = module(tmp_path, ENDS_ITSELF)
    answer = report("run", "first-claim.after-claim", "--kills", 1, "--worker", path)
    assert answer["verdict"] == "unknown"
    assert answer["unanswered"][0]["difference"] == "the process ended before its hook, with status 3"


# --- bad input --------------------------------------------------------------------------------------------------------


BAD = {
    "no such file": (["run", "--worker", "nowhere.py"], "nowhere.py: no such file"),
    "a folder": (["run", "--worker", "model"], "model: is a directory"),
    "no worker": (["run", "--worker", "model/lease.py"], "lease.py: not a worker module: lacks "),
    "no Python": (["run", "--worker", "README.md"], "README.md: not a Python source file"),
    "replay of no worker": (["replay", "1:1:first-claim.after-claim", "--worker", "model/lease.py"], "not a worker"),
    "unknown experiment": (["run", "first-clam.after-claim"], "the nearest is first-claim.after-claim"),
    "no token": (["replay", "first-claim"], "it is SEED:ROUND:EXPERIMENT"),
    "a token of no experiment": (["replay", "1:2:x.y"], "it has no experiment x.y"),
    "a token without digits": (["replay", "\u0661:2:first-claim.after-claim"], "is no token"),
    "no kills": (["run", "--kills", "0"], "0 is too few"),
    "a negative seed": (["run", "--seed=-1"], "'-1' is not a whole number"),
    "no minutes": (["run", "--minutes", "nan"], "'nan' is not a number of minutes"),
    "two ends": (["run", "--kills", "1", "--minutes", "1"], "not allowed with argument"),
    "no command": ([], "are required: list | run | replay"),
    "another command": (["walk"], "invalid choice: 'walk'"),
}


@pytest.mark.parametrize(("arguments", "part"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(arguments: list[str], part: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fencepost: ")
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


@pytest.mark.parametrize("text", ["os._exit(3)", "raise SystemExit(3)", "1 +", "raise KeyError('x\\ny')"])
def test_a_module_that_does_not_import_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "judged.py"
    path.write_text(f"import os\n{text}\n")
    done = run("run", "--worker", path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fencepost: {path}: does not import")
    assert done.stderr.count("\n") == 1


# --- nothing is left --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that has begun to kill, and would go on."""
    command = [sys.executable, "-m", "chaos", "run", "--minutes", "5", "--jobs", "2", "--worker", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            until(lambda: len(list(scratch.fast().glob(f"fencepost-{process.pid}-*/*/queue.db"))) == 2)
            yield process
        finally:
            process.kill()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def nothing_is_left(pid: int, path: Path, offspring: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(offspring, timeout=WAIT_S)
    assert alive == []
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(path) in command]
    until(lambda: not list(scratch.fast().glob(f"fencepost-{pid}-*")))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda ending: ending.name)
def test_an_interrupted_run_leaves_nothing(ending: signal.Signals, tmp_path: Path) -> None:
    path = module(tmp_path)
    with running(path) as process:
        offspring = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(ending)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 2
        assert out.splitlines()[-2:] == ["stopped  interrupted", "verdict: unknown"]
        assert "Traceback" not in err
        nothing_is_left(process.pid, path, offspring)


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    path = module(tmp_path)
    with running(path) as process:
        offspring = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(WAIT_S)
        nothing_is_left(process.pid, path, offspring)


def test_the_next_start_sweeps_what_is_left() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    left, ours = (scratch.fast() / f"fencepost-{pid}-left" for pid in (process.pid, psutil.Process().pid))
    for folder in (left, ours):
        (folder / "0").mkdir(parents=True)
    try:
        scratch.sweep()
        assert not left.exists()
        assert ours.exists()
    finally:
        (ours / "0").rmdir()
        ours.rmdir()


def test_a_killed_part_makes_unknown(tmp_path: Path) -> None:
    path = module(tmp_path)
    with running(path) as process:
        children = psutil.Process(process.pid).children()
        children[0].kill()
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 2
        assert "stopped  a process that kills ended itself, with status -9" in out
        nothing_is_left(process.pid, path, children)
