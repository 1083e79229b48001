"""What storms and kills look like: all that happened is in the timeline, and a real failing storm on the page."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos import storm, stream_storm, stream_weather
from chaos.aftermath import Aftermath, judge
from chaos.campaign import Found, Outcome, Plan
from chaos.inbox import Inbox, Request
from chaos.killer import ROOT
from chaos.picture import of_kills, put
from chaos.test_aftermath import ADDED, FINISHED, FIRST, GOT, RETAKEN, TWICE, left
from chaos.test_main import NEVER_REFUSES, module
from chaos.timeline import timeline
from chaos.weather import Weather
from model.contract import State
from model.counterexample import Violation
from model.history import MS
from model.queue import Queue, Worker

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SMALL = Weather(jobs=20, redrives=4, kills=5, stalls=1)


def of(timeline: dict[str, Any], *kinds: str) -> list[Any]:
    return [item for item in timeline["items"] if item[1] in kinds]


def test_a_timeline_has_all_that_happened(worker: Worker, worker_path: Path, tmp_path: Path) -> None:
    did, shown = Counter[str](), list[dict[str, Any]]()
    storm.check(SMALL, Queue(worker, tmp_path / "queue.db"), worker_path, 5, did, shown.append)
    (seen,) = shown
    assert len(of(seen, "kill")) == did["processes killed"]
    assert len(of(seen, "refused")) >= did["stale finishes refused"] > 0
    assert {"wake", "send", "commit"} <= {item[1] for item in seen["items"]}
    stalls = of(seen, "stall")
    assert len([item for item in stalls if item[6] != "stops: statement"]) >= did["stalls"]
    assert {item[7] for item in stalls} <= {"SIGSTOP, then SIGCONT", "killed before it ended", "SIGSTOP"}
    done = {item[4] for item in of(seen, "finish") if item[7] == "'done'"}
    assert done <= {item[4] for item in of(seen, "commit")}
    assert (seen["job"], seen["wrong"]) == ("", [])


def test_a_lane_is_a_process(worker: Worker, worker_path: Path, tmp_path: Path) -> None:
    did, shown = Counter[str](), list[dict[str, Any]]()
    storm.check(SMALL, Queue(worker, tmp_path / "queue.db"), worker_path, 6, did, shown.append)
    (seen,) = shown
    *processes, receiver = seen["lanes"]
    assert receiver["name"] == "receiver"
    assert len({lane["pid"] for lane in processes} - {0}) == len(processes) == 5 + did["processes killed"]
    held: dict[tuple[str, int], Any] = {(item[4], item[5]): item for item in of(seen, "lease")}
    for finish in [item for item in of(seen, "finish") if item[7].startswith("'")]:
        lease = held[finish[4], finish[5]]
        assert lease[2] <= finish[2] <= lease[3] <= finish[3]
        assert lease[7].startswith("finished")


def test_the_wrong_call_is_marked() -> None:
    stale = left(ADDED, GOT, RETAKEN, FINISHED, row=TWICE)
    with pytest.raises(Violation, match="with token 1 is accepted") as found:
        judge(stale)
    shown = timeline(stale, (), "a storm", found.value.story)
    (wrong,) = (shown["items"][number] for number in shown["wrong"])
    assert (wrong[1], shown["job"], shown["lanes"][wrong[0]]["name"]) == ("finish", "a", "p4")
    assert [(lease[5], lease[7]) for lease in of(shown, "lease")] == [(1, "claimed again"), (2, "held to the end")]


def test_a_finish_that_was_called_late_ends_its_lease() -> None:
    over = 28 * MS
    clock = {"at": over, "process": "", "note": "clock", "now_ms": FIRST.lease_until}
    shown = timeline(left(ADDED, GOT, FINISHED), (clock,), "a storm")
    (lease,), (finish,) = of(shown, "lease"), of(shown, "finish")
    assert finish[2] > (over - 10 * MS) // 1000, "the lease was over when it was called, not when its caller looked"
    assert lease[2] <= finish[2] <= lease[3] <= finish[3]
    assert lease[7] == "finished: 'done'"


NOTES = (
    {"at": 0, "process": "", "note": "clock", "now_ms": 0},
    {"at": 1 * MS, "process": "p-2", "note": "starts", "seat": "p", "owner": "v", "skew_ms": 3},
    {"at": 2 * MS, "process": "p-2", "note": "born", "pid": 77},
    {"at": 3 * MS, "process": "p-2", "note": "stops", "place": "sends"},
    {"at": 5 * MS, "process": "p-2", "note": "wakes"},
    {"at": 6 * MS, "process": "p-2", "note": "sends", "job": "a", "token": 1},
    {"at": 9 * MS, "process": "p-2", "gone": True},
)


def test_what_befell_a_process_is_in_its_lane() -> None:
    request = Request('{"id": "a", "qty": 5}', "new", came=7 * MS, committed=8 * MS, answer="503")
    shown = timeline(Aftermath((), State(), Inbox(), [request]), NOTES, "a storm")
    assert shown["lanes"][0] == {"group": "p", "name": "p-2", "pid": 77, "says": "owner 'v', clock 3 ms ahead"}
    assert [item[1:4] + item[7:] for item in shown["items"]] == [
        ["stall", 3000, 5000, "SIGSTOP, then SIGCONT"],
        ["wake", 5000, 5000, "SIGCONT"],
        ["send", 6000, 9000, "killed before it ended"],
        ["kill", 9000, 9000, "by its fate"],
        ["commit", 8000, 8000, "new; answer 503"],
    ]
    assert shown["items"][-1][6] == 'request from p-2: {"id": "a", "qty": 5}'


def test_a_storm_of_receivers_has_its_lanes(client_path: Path, tmp_path: Path) -> None:
    did, shown = Counter[str](), list[dict[str, Any]]()
    weather = stream_weather.Weather(events=300, kills=4, resends=20)
    stream_storm.check(weather, tmp_path / "store.db", client_path, 4, did, shown.append)
    (seen,) = shown
    assert len(of(seen, "session")) <= did["sessions"]
    assert len(of(seen, "kill")) == did["receivers killed"]
    assert {seen["lanes"][item[0]]["name"] for item in of(seen, "send")} == {"publisher"}
    assert of(seen, "commit")[-1][6].startswith("event ")


def texts(chrome: Chrome, selector: str) -> list[str]:
    return [element.text for element in chrome.find_elements("css selector", selector)]


def test_a_failing_storm_is_the_first_to_be_seen(browser: Chrome, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos", "storm", "--seed", "3", "--results", str(tmp_path)]
    command += ["--worker", str(module(tmp_path, NEVER_REFUSES.format("")))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert done.returncode == 1
    assert f"report   {(tmp_path / 'latest').resolve() / 'report.html'}" in done.stdout.splitlines()
    browser.get((tmp_path / "latest" / "report.html").as_uri())
    assert texts(browser, "#verdict") == ["invalid"]
    (difference,) = texts(browser, ".difference")
    assert difference == done.stdout.splitlines()[0]
    (chosen,) = texts(browser, ".chosen")
    assert chosen.startswith("finish of job-")
    assert chosen.splitlines()[0].endswith(", wrong")
    few, _, all_ = texts(browser, "output")[0].partition(" of ")
    assert 0 < int(few) < 100 < int(all_.replace(",", ""))
    browser.find_element("css selector", "[title='remove every filter']").click()
    assert texts(browser, "output") == [f"{all_} of {all_}"]


def test_a_failing_kill_is_shown_as_a_program(browser: Chrome, tmp_path: Path) -> None:
    plan = Plan({"worker": ROOT / "worker.py"}, 7, ["first-claim.after-claim"], 1)
    found = Found(0, "7:0:first-claim.after-claim", "claim leaves half of it", ("import worker", "worker.claim(…)"))
    outcome = Outcome(Counter({"worker killed": 3}), Counter(), violations=[found])
    browser.get(put(tmp_path, 7, of_kills(plan, outcome)).as_uri())
    assert texts(browser, "#failure pre") == ["import worker\nworker.claim(…)"]
    assert texts(browser, ".replay code") == ["python -m chaos replay 7:0:first-claim.after-claim"]
    assert "3\nworker killed" in texts(browser, "#observed li")
