"""``python -m chaos`` from the outside: what it lists, finds, repeats and says, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

import psutil
import pytest

from chaos import __main__ as chaos
from chaos import campaign, killer, storms, storms_child, stream_experiments, stream_weather
from chaos.campaign import INTERRUPTED, Found, Plan, processors
from chaos.company import vary
from chaos.experiments import EXPERIMENTS, QueueExperiment
from chaos.killer import ROOT
from chaos.kills import DEATHS, BadInput, Kill, chosen, kind_of, parse, turns
from chaos.openings import OPENINGS, STORE_OPENINGS
from chaos.progress import Progress
from chaos.report import FIGURES, INTERLEAVING, UNANSWERED, storms_json, storms_so_far, storms_text
from chaos.weather import Weather
from model import scratch
from model.contract import KINDS

SHIPPED = ROOT / "worker.py"
WAIT_S = 40
COMMITS_EARLY = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    return right(con, owner, now_ms, lease_ms, fault and (lambda hook: (con.execute("COMMIT"), fault(hook))))
"""

COUNTS_TWICE = """
def apply_event(con, seq, delta, fault=None, right=apply_event):
    new = right(con, seq, delta, fault)
    if new and seq == 7:
        con.execute("UPDATE checkpoint SET total = total + 1")
    return new
"""

APPLIES_EARLY = """
def apply_event(con, seq, delta, fault=None, right=apply_event):
    return right(con, seq, delta, fault and (lambda hook: (con.in_transaction and con.execute("COMMIT"), fault(hook))))
"""

ENDS_ITSELF = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    return os._exit(3) if fault else right(con, owner, now_ms, lease_ms)
"""


NEVER_REFUSES = """
def finish(con, ticket, outcome, now_ms, delay_ms=0, fault=None, right=finish):
    (path,) = (row[2] for row in con.execute("PRAGMA database_list"))
    return right(con, ticket, outcome, now_ms, delay_ms, fault) or ("done" if path.endswith("{}/queue.db") else False)
"""


def module(folder: Path, after: str = "") -> Path:
    """A copy of the shipped module with something after it; no other process has its name in its command."""
    path = folder / "judged.py"
    path.write_text(f"{SHIPPED.read_text()}\n{after}\n")
    return path


def client_module(folder: Path, after: str = "") -> Path:
    path = folder / "judged.py"
    path.write_text(f"{(ROOT / 'client.py').read_text()}\n{after}\n")
    return path


RESULTS = {"runs": ROOT / "runs"}


@pytest.fixture(autouse=True)
def _results(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go into a folder of the test."""
    monkeypatch.setitem(RESULTS, "runs", tmp_path_factory.mktemp("runs"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaos", *map(str, arguments)]
    command += ["--results", str(RESULTS["runs"])] if arguments and arguments[0] in ("run", "storm") else []
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own


def report(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json")
    answer: dict[str, Any] = json.loads(done.stdout)
    said = ("nothing found", answer["verdict"])  # while the last processes end, what was found is known already
    assert all(line.endswith(said) for line in done.stderr.splitlines()), done.stderr
    assert done.returncode == chaos.STATUS[answer["verdict"]]
    return answer


CHANGES = """
import pathlib
with pathlib.Path(__file__).open("a") as file: file.write("#")
"""


@pytest.mark.parametrize("command", [("run", "--kills", "2"), ("storm", "--storms", "1")], ids=lambda each: each[0])
def test_a_file_that_changes_meanwhile_is_unknown(command: tuple[str, ...], tmp_path: Path) -> None:
    path = module(tmp_path, CHANGES)
    answer = report(*command, "--seed", "1", "--worker", path)
    assert (answer["verdict"], answer["stopped"]) == ("unknown", f"{path} was changed during the run")


def test_an_error_of_our_own_is_no_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chaos, "main", lambda: 1 // 0)
    assert chaos.guarded() == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


# --- list, and the names ----------------------------------------------------------------------------------------------


def test_the_list_has_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == list(DEATHS)
    assert ["first-claim.after-claim", "after-claim", "lost"] in rows
    assert ["first-enqueue.commit-done", "commit-done", "kept"] in rows
    assert ["first-event.after-total", "after-total", "lost"] in rows
    assert ["first-event-line.after-commit", "after-commit", "kept"] in rows


def test_the_list_is_data_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["list", "--json"]) == 0
    assert {row["name"]: row["change"] for row in json.loads(capsys.readouterr().out)}.keys() == DEATHS.keys()


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        chaos.main(["--help"])
    assert ended.value.code == 0
    assert "python -m chaos replay 1:3:first-claim.after-claim --worker mine.py" in capsys.readouterr().out


def test_a_selection_is_a_part_of_names() -> None:
    assert chosen("", KINDS) == list(DEATHS)
    assert chosen("first claim.after", KINDS) == [name for name in DEATHS if "first-claim.after" in name]
    assert chosen("first-claim.after-claim", KINDS) == ["first-claim.after-claim"]


def test_a_selection_is_of_what_is_judged() -> None:
    of_kind = {name: [each for each, death in DEATHS.items() if kind_of(death).name == name] for name in KINDS}
    assert {name: chosen("", [name]) for name in KINDS} == of_kind
    assert of_kind["worker"] + of_kind["client"] == list(DEATHS)
    assert chosen("first", ["client"]) == [name for name in of_kind["client"] if "first" in name]
    with pytest.raises(BadInput, match="no experiment has 'claim' in its name"):
        chosen("claim", ["client"])


def test_a_name_belongs_to_one_experiment() -> None:
    every = (*EXPERIMENTS, *OPENINGS, *stream_experiments.EXPERIMENTS, *STORE_OPENINGS)
    assert list(DEATHS.values()) == list(every)


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
def test_company_makes_no_experiment_void(experiment: QueueExperiment) -> None:
    varied = [vary(experiment, f"{seed}") for seed in range(20)]
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


def test_a_full_team_has_a_processor_each() -> None:
    cpus = processors()
    for jobs in (len(cpus), len(cpus) + 1):
        plan = Plan({"worker": SHIPPED}, 1, ["first-claim.after-claim"], jobs)
        kept_to = [plan.task(job, Path()).cpu for job in range(jobs)]
        assert kept_to == (cpus if jobs == len(cpus) else [None] * jobs)


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


@pytest.mark.parametrize("selection", ["", "first-event"], ids=["one round", "several rounds"])
def test_a_seed_gives_the_same_dead_receivers_again(selection: str) -> None:
    asked = ["run", selection, "--kills", 40, "--seed", 5, "--client", ROOT / "client.py"]
    once, again = report(*asked), report(*asked, "--jobs", 1)
    assert once["kills"] == again["kills"] == 40
    assert once["verdict"] == again["verdict"] == "valid"
    assert once["digest"] == again["digest"]
    assert all(kind.startswith("client killed ") for kind in once["observed"])
    assert list(once["judged"]) == ["client"]


def test_both_are_killed_if_neither_is_named() -> None:
    answer = report("run", "--kills", 60, "--seed", 3)
    assert answer["verdict"] == "valid"
    assert list(answer["judged"]) == list(KINDS)
    assert {kind.partition(" ")[0] for kind in answer["observed"]} == set(KINDS)
    assert answer["experiments"]["in_all"] == len(DEATHS)


def test_a_wrong_client_is_found_and_found_again(tmp_path: Path) -> None:
    path = client_module(tmp_path, APPLIES_EARLY)
    found = report("run", "event", "--seed", 1, "--client", path)
    assert found["verdict"] == "invalid"
    assert found["violation"]["replay"] == f"python -m chaos replay {found['violation']['token']} --client {path}"
    again = run("replay", found["violation"]["token"], "--client", path)
    assert again.returncode == 1
    assert again.stdout.splitlines()[0] == found["violation"]["difference"]
    right = run("replay", found["violation"]["token"])
    assert right.returncode == 0
    assert f"judged   {ROOT / 'client.py'}" in right.stdout.splitlines()


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


# --- storm ------------------------------------------------------------------------------------------------------------


def test_storms_are_counted_by_what_happened() -> None:
    answer = report("storm", "--storms", 2, "--seed", 1, "--worker", SHIPPED)
    seen = answer["observed"]["worker"]
    assert (answer["verdict"], answer["storms"], answer["seed"]) == ("valid", 2, 1)
    assert list(answer["observed"]) == list(answer["judged"]) == ["worker"]
    assert list(seen) == ["storms", *FIGURES["worker"]]
    assert seen["processes killed"] >= 2 * Weather().kills
    assert seen["stalls"] >= seen["stale finishes refused"] >= 2 * Weather().stalls
    assert seen["operations"] > 2 * Weather().jobs
    assert seen["resends"] > 0


def test_both_have_their_storms_if_neither_is_named() -> None:
    answer = report("storm", "--storms", 1, "--seed", 1)
    least = stream_weather.Weather()
    seen = answer["observed"]["client"]
    assert (answer["verdict"], answer["storms"]) == ("valid", 2)
    assert [kind["storms"] for kind in answer["observed"].values()] == [1, 1]
    assert list(answer["judged"]) == list(answer["observed"]) == list(KINDS)
    assert list(seen) == ["storms", *FIGURES["client"]]
    assert (seen["receivers killed"] >= least.kills, seen["events"] >= least.events) == (True, True)
    assert {"exactly-once delivery", "exactly-once effects beyond the file"} <= answer["not_covered"].keys()


def test_a_wrong_storm_of_receivers_is_found_and_found_again(tmp_path: Path) -> None:
    path = client_module(tmp_path, COUNTS_TWICE)
    again = f"python -m chaos storm --seed 8 --storms 1 --client {path}"
    for done in (run("storm", "--seed", 8, "--client", path), run(*again.split()[3:])):
        lines = done.stdout.splitlines()
        assert done.returncode == 1
        assert re.match("checkpoint: total is -?[0-9]+ at event [0-9]+, must be", lines[0])
        assert f"  replay  {again}" in lines
        assert f"  {1:>8}  client storms" in lines
        assert "  exactly-once delivery: not guaranteed" not in done.stdout
        assert lines[-1] == "verdict: invalid"


def test_a_worker_of_two_judged_is_named_alone(tmp_path: Path) -> None:
    path = module(tmp_path, NEVER_REFUSES.format(""))
    answer = report("storm", "--storms", 1, "--seed", 8, "--worker", path, "--client", ROOT / "client.py")
    assert (answer["verdict"], answer["violation"]["token"]) == ("invalid", "8:worker")
    assert answer["violation"]["replay"] == f"python -m chaos storm --seed 8 --storms 1 --worker {path}"


def test_storms_end_with_their_time() -> None:
    done = run("storm", "--minutes", 0.001, "--seed", 6, "--worker", SHIPPED)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[:2] == ["observed", f"  {1:>8}  worker storms"]
    assert "  exactly-once delivery: not guaranteed: the receiver has to remove what is sent again" in lines
    seed, shown, verdict = lines[-3:]
    assert (seed, verdict) == ("seed     6 (the storms have 6 to 6)", "verdict: valid")
    assert Path(shown.removeprefix("report   ")).is_file()


def test_a_wrong_storm_is_found_and_found_again(tmp_path: Path) -> None:
    path = module(tmp_path, NEVER_REFUSES.format(""))
    again = f"python -m chaos storm --seed 8 --storms 1 --worker {path}"
    for done in (run("storm", "--seed", 8, "--worker", path), run(*again.split()[3:])):
        lines = done.stdout.splitlines()
        assert done.returncode == 1
        assert re.match("the finish of job-.* is accepted", lines[0])
        assert lines[lines.index(f"  replay  {again}") + 1 :][:2] == [f"          {INTERLEAVING}", ""]
        assert f"  {1:>8}  worker storms" in lines
        assert lines[-1] == "verdict: invalid"


def test_a_violation_names_its_own_seed(tmp_path: Path) -> None:
    path = module(tmp_path, NEVER_REFUSES.format("/1"))
    answer = report("storm", "--seed", 7, "--worker", path)
    assert (answer["verdict"], answer["storms"], answer["violation"]["token"]) == ("invalid", 2, "8:worker")
    assert answer["violation"]["replay"] == f"python -m chaos storm --seed 8 --storms 1 --worker {path}"
    assert answer["violation"]["program"]


def test_a_seed_alone_says_whose_storm() -> None:
    assert [len(storms_child.weather(seed).owners) for seed in (0, 1, 2, 7)] == [2, 1, 2, 1]
    assert all(replace(storms_child.weather(seed), owners=()) == Weather(owners=()) for seed in (0, 1))


def test_an_endless_storm_is_broken_off(tmp_path: Path) -> None:
    task = storms_child.Task({"worker": str(SHIPPED)}, str(tmp_path / "storms"), 1, 2, None, limit_s=0.2)
    Path(task.folder).mkdir()
    with killer.running("chaos.storms_child") as child:
        killer.tell(child, json.dumps(asdict(task)).encode() + b"\n")
        words = [json.loads(line) for line in iter(lambda: child.line("a word"), b"")]
    late = "the storm has not ended after 0.2 s"
    none = [["unanswered", 0, "1:worker", late, []], ["unanswered", 1, "2:worker", late, []]]
    assert [word for word in words if word[0] not in ("storm", "timeline")] == [["ready"], *none, ["done"]]
    assert not Path(task.folder).exists()


def test_a_storm_nobody_waits_for_ends(tmp_path: Path) -> None:
    task = storms_child.Task({"worker": str(SHIPPED)}, str(tmp_path / "storms"), 1, None, None)
    Path(task.folder).mkdir()
    with killer.running("chaos.storms_child") as child:
        killer.tell(child, json.dumps(asdict(task)).encode() + b"\n")
        assert json.loads(child.line("a word")) == ["ready"]
        cast("IO[bytes]", child.process.stdin).close()
        assert child.line("its end") == b""
        assert child.status() == 0
    assert not Path(task.folder).exists()


PLAN: Final = storms.Plan({"worker": SHIPPED, "client": ROOT / "client.py"}, 1, None, 1.0)


def outcome(*unanswered: str) -> storms.Outcome:
    found = [Found(number, f"{number}:worker", line, ()) for number, line in enumerate(unanswered)]
    did = {"worker": Counter({"processes killed": 10}), "client": Counter({"receivers killed": 2})}
    return storms.Outcome(Counter({"worker": 2, "client": 1}), did, 4.2, None, found)


def test_a_storm_without_answer_makes_unknown() -> None:
    lines = list(storms_text(PLAN, outcome("void", "late", "void", "void")))
    assert lines[:2] == ["unanswered  void", f"  replay  python -m chaos storm --seed 0 --storms 1 --worker {SHIPPED}"]
    assert sum(line.startswith("  replay  ") for line in lines) == UNANSWERED
    assert "unanswered  4 storms in all" in lines
    assert lines[-1] == "verdict: unknown"
    assert len(storms_json(PLAN, outcome("void", "void", "void", "void"))["unanswered"]) == 4
    assert storms.Outcome().verdict == "unknown"
    assert storms.Outcome(Counter({"worker": 3}), stopped=INTERRUPTED).verdict == "unknown"
    assert outcome().verdict == "valid"


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_progress_is_a_line_at_times(
    terminal: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(f"chaos.progress.{'TERMINAL_S' if terminal else 'PLAIN_S'}", 0.0)
    monkeypatch.setattr(f"chaos.progress.{'PLAIN_S' if terminal else 'TERMINAL_S'}", 1000.0)
    with Progress(partial(storms_so_far, PLAN)) as progress:
        progress(outcome())
        progress(outcome("void"))
    first = "3 storms of 1 minute, 4 s, 12 processes killed, nothing found"
    second = "3 storms of 1 minute, 4 s, 12 processes killed, unknown"
    clear = "\r\033[K"
    said = f"{clear}{first}{clear}{second}{clear}" if terminal else f"{first}\n{second}\n"
    assert capsys.readouterr().err == said


# --- bad input --------------------------------------------------------------------------------------------------------


BAD = {
    "no such file": (["run", "--worker", "nowhere.py"], "nowhere.py: no such file"),
    "a folder": (["run", "--worker", "model"], "model: is a directory"),
    "no worker": (["run", "--worker", "model/lease.py"], "lease.py: not a worker module: lacks "),
    "no Python": (["run", "--worker", "README.md"], "README.md: not a Python source file"),
    "replay of no worker": (["replay", "1:1:first-claim.after-claim", "--worker", "model/lease.py"], "not a worker"),
    "no client": (["run", "--client", "worker.py"], "worker.py: not a client module: lacks "),
    "a client where workers die": (
        ["replay", "1:1:first-claim.after-claim", "--client", "client.py"],
        "--client: no client is killed in what is to be done",
    ),
    "a worker where clients die": (
        ["run", "first-event", "--client", "client.py", "--worker", "worker.py"],
        "--worker: no worker is killed in what is to be done",
    ),
    "unknown experiment": (["run", "first-clam.after-claim"], "the nearest is first-claim.after-claim"),
    "no token": (["replay", "first-claim"], "it is SEED:ROUND:EXPERIMENT"),
    "a token of no experiment": (["replay", "1:2:x.y"], "it has no experiment x.y"),
    "a token without digits": (["replay", "\u0661:2:first-claim.after-claim"], "is no token"),
    "no kills": (["run", "--kills", "0"], "0 is too few"),
    "a negative seed": (["run", "--seed=-1"], "'-1' is not a whole number"),
    "no minutes": (["run", "--minutes", "nan"], "'nan' is not a number of minutes"),
    "two ends": (["run", "--kills", "1", "--minutes", "1"], "not allowed with argument"),
    "no command": ([], "are required: list | run | replay | storm"),
    "storms over no file": (["storm", "--worker", "nowhere.py"], "nowhere.py: no such file"),
    "storms over no worker": (["storm", "--worker", "model/lease.py"], "lease.py: not a worker module: lacks "),
    "storms over no client": (["storm", "--client", "worker.py"], "worker.py: not a client module: lacks "),
    "no storms": (["storm", "--storms", "0"], "0 is too few"),
    "two ends of storms": (["storm", "--storms", "1", "--minutes", "1"], "not allowed with argument"),
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


@pytest.mark.parametrize("command", ["run", "storm"])
@pytest.mark.parametrize("text", ["os._exit(3)", "raise SystemExit(3)", "1 +", "raise KeyError('x\\ny')"])
def test_a_module_that_does_not_import_is_one_line(text: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "judged.py"
    path.write_text(f"import os\n{text}\n")
    done = run(command, "--worker", path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fencepost: {path}: does not import")
    assert done.stderr.count("\n") == 1


# --- nothing is left --------------------------------------------------------------------------------------------------


ENDLESS: Final = {
    "run": (["run", "--minutes", "5", "--jobs", "2", "--worker"], "queue.db", 2),
    "storm": (["storm", "--minutes", "5", "--worker"], "worker-?-2.history", 1),
    "storm of receivers": (["storm", "--minutes", "5", "--client"], "store.db", 1),
}
"""What goes on, and the files that show that it has begun to kill."""


@contextlib.contextmanager
def running(name: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that has begun to kill, and would go on."""
    arguments, file, count = ENDLESS[name]
    command = [sys.executable, "-m", "chaos", *arguments, str(path), "--results", str(RESULTS["runs"])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            until(lambda: len(list(scratch.fast().glob(f"fencepost-{process.pid}-*/*/{file}"))) >= count)
            yield process
        finally:
            process.kill()


def judged(name: str, folder: Path) -> Path:
    return client_module(folder) if name == "storm of receivers" else module(folder)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def nothing_is_left(pid: int, path: Path, offspring: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(offspring, timeout=WAIT_S)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    until(lambda: not any(str(path) in command for command in commands()))  # one that was just forked dies last
    until(lambda: not litter(pid))


def commands() -> list[list[str]]:
    return [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]


def litter(pid: int) -> list[Path]:
    return list(scratch.fast().glob(f"fencepost-{pid}-*"))


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda ending: ending.name)
@pytest.mark.parametrize("name", ENDLESS)
def test_an_interrupted_run_leaves_nothing(name: str, ending: signal.Signals, tmp_path: Path) -> None:
    path = judged(name, tmp_path)
    with running(name, path) as process:
        offspring = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(ending)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 130
        assert out.splitlines()[-2:] == ["stopped  interrupted", "verdict: unknown"]
        assert "Traceback" not in err
        nothing_is_left(process.pid, path, offspring)


def test_an_interrupted_run_lets_its_processes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    killers = list[killer.Child]()

    @contextlib.contextmanager
    def started(name: str) -> Iterator[killer.Child]:
        with killer.running(name) as child:
            killers.append(child)
            yield child

    def interrupt(outcome: campaign.Outcome) -> None:
        if outcome.kills:
            raise campaign.Interrupted

    monkeypatch.setattr(campaign, "running", started)
    plan = Plan({"worker": SHIPPED}, 1, ["first-claim.after-claim"], jobs=2, minutes=5)
    assert campaign.carry_out(plan, interrupt).stopped == INTERRUPTED
    assert [child.process.returncode for child in killers] == [0, 0]


@pytest.mark.parametrize("name", ENDLESS)
def test_a_killed_run_leaves_nothing(name: str, tmp_path: Path) -> None:
    path = judged(name, tmp_path)
    with running(name, path) as process:
        offspring = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(WAIT_S)
        nothing_is_left(process.pid, path, offspring)


def test_the_next_start_sweeps_what_is_left() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    left, ours = (scratch.fast() / f"{scratch.prefix(pid)}left" for pid in (process.pid, psutil.Process().pid))
    theirs = scratch.fast() / f"fencepost-{process.pid}-1-left"
    for folder in (left, ours, theirs):
        (folder / "0").mkdir(parents=True)
    try:
        scratch.sweep()
        assert [folder.exists() for folder in (left, ours, theirs)] == [False, True, True]
    finally:
        for folder in (ours, theirs):
            (folder / "0").rmdir()
            folder.rmdir()


@pytest.mark.parametrize(
    ("name", "part"),
    [(name, f"process that {'kills' if name == 'run' else 'lets storms come'}") for name in ENDLESS],
)
def test_a_killed_part_makes_unknown(name: str, part: str, tmp_path: Path) -> None:
    path = judged(name, tmp_path)
    with running(name, path) as process:
        children = psutil.Process(process.pid).children()
        offspring = psutil.Process(process.pid).children(recursive=True)
        children[0].kill()
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 2
        assert f"{part} ended itself, with status -9" in out
        assert name == "run" or not litter(process.pid)
        nothing_is_left(process.pid, path, offspring)
