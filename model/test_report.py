"""The report in a real browser: what is on the page, that it can be used, and that no text in it does anything."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from model import lease
from model.contract import WORKER, Claim, Enqueue, Finish, Return, Ticket
from model.counterexample import Line, program
from model.diagram import drawn, of_jobs
from model.explorer import Step, explore
from model.history import made
from model.queue import Queue
from model.report import embedded, page
from model.scopes import SCOPES
from model.telling import Taken, story

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

Data = dict[str, Any]
HOSTILE = """</script><img src=x onerror="hacked=1"><!--<script>hacked=1</script>"""


# --- what is looked at ------------------------------------------------------------------------------------------------


def valid() -> Data:
    """A run in which all went well."""
    world = explore(SCOPES["one"])
    edges = Counter(
        edge
        for before in world.states
        for op in world.scope.ops(before)
        for edge in of_jobs(Step(before, op, *world.scope.step(before, op)))
    )
    ops = [[name.lower(), count, count] for name, count in world.transitions.items()]
    return {
        "verdict": "valid",
        "facts": [["worker", "worker.py"], ["seed", "7"]],
        "failures": [],
        "unanswered": [],
        "not_tried": ["worker: syscalls: no strace"],
        "layers": [layer("contract", "valid"), layer("storm", "valid")],
        "coverage": [{"kind": "worker", "ops": ops, "diagram": drawn("worker", edges)}],
        "timelines": [crowd(300)],
        "observed": [[12, "storm: stalls"]],
        "not_guaranteed": [["Clocks", "nothing here makes two hosts agree on the time"]],
    }


def layer(name: str, word: str) -> list[str]:
    return ["worker", name, "3", "9 calls", word, "1.3"]


def crowd(ops: int) -> Data:
    """The timeline of a made-up history of so many operations."""
    calls = made(random.Random(1), ops).history  # noqa: S311 - no secret
    names = sorted({call.process for call in calls})
    items = [
        [
            names.index(call.process),
            type(call.op).__name__.lower(),
            call.invoked // 1000,
            None if call.returned is None else call.returned // 1000,
            f"job-{number % 40:02}",
            None,
            repr(call.op),
            repr(call.reply),
        ]
        for number, call in enumerate(calls)
    ]
    lanes = [{"group": name.rstrip("'"), "name": name, "pid": 100 + n, "says": ""} for n, name in enumerate(names)]
    end = max(call.returned or call.invoked for call in calls) // 1000
    return {"title": "a crowd", "lanes": lanes, "items": items, "clock": [], "end": end, "job": "", "wrong": []}


def failing(difference: str = "worker.finish(…) returns 'done', must return False") -> Data:
    """A run with a program that fails in its last step, in which another outcome stands in the row."""
    ticket = Ticket("a", 5, "w", 1, 1, 100)
    ops = (Enqueue("a", 5, 0, 500), Claim("w", 0, 100), Finish(ticket, "ok", 5))
    state, steps, lines = lease.EMPTY, list[Taken](), list[Line]()
    for op in ops:
        state, want = lease.step(state, op)
        steps.append(Taken(want, want, state, state))
        lines.append(Line(op, 1, want))
    wrong = state._replace(jobs=(state.jobs[0]._replace(status="leased", owner="w"),))
    steps[-1] = Taken(Return(value=False), steps[-1].want, state, wrong)
    failure = {
        "kind": "worker",
        "layer": "stateful",
        "title": "random programs agree",
        "difference": difference,
        "program": program(lines, WORKER),
        "replay": "tox run -e gate",
        "story": story(steps, Queue.tables),
        "timeline": None,
    }
    other = {**failure, "title": "another one", "story": None}
    return {**valid(), "verdict": "invalid", "failures": [other, failure], "unanswered": ["storm: no answer"]}


Show = Callable[[Data], "Chrome"]


@pytest.fixture
def show(browser: Chrome, tmp_path: Path) -> Show:
    """Opens the page of some data, from a file."""

    def at(data: Data) -> Chrome:
        path = tmp_path / "report.html"
        path.write_text(page(data), "utf-8")
        size(browser, 1280)
        browser.get(path.as_uri())
        return browser

    return at


def size(chrome: Chrome, width: int, scheme: str = "light") -> None:
    """A viewport of this width, on a machine that prefers this scheme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def one(chrome: Chrome, selector: str) -> WebElement:
    return chrome.find_element("css selector", selector)


def texts(chrome: Chrome, selector: str) -> list[str]:
    """What each of these elements shows, its parts a space apart."""
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText ?? each.textContent)"
    return [" ".join(text.split()) for text in chrome.execute_script(script, selector)]


def press(chrome: Chrome, selector: str, *keys: str) -> None:
    for key in keys:
        one(chrome, selector).send_keys(key)


UP, RIGHT, DOWN, ESCAPE = "\ue013", "\ue014", "\ue015", "\ue00c"
"""Keys, by the numbers that WebDriver gives them."""

PICTURE = ".stage > canvas"


# --- what is on the page ----------------------------------------------------------------------------------------------


def test_a_valid_run_shows_all_it_rests_on(show: Show) -> None:
    chrome = show(valid())
    assert one(chrome, "#verdict").text == "valid"
    assert texts(chrome, "#layers tbody td:nth-child(2)") == ["contract", "storm"]
    headings = chrome.execute_script("return [...document.querySelectorAll('section')].map((each) => each.ariaLabel)")
    assert headings[:-1] == ["Layers", "Transitions of the model", "Timeline"]
    assert "claim" in one(chrome, ".cover table").text
    assert {"pending", "leased", "done", "dead"} <= set(texts(chrome, ".diagram .name"))
    assert "finish permanent (permanent)" in one(chrome, ".diagram").text
    assert texts(chrome, "#observed li") == ["12 storm: stalls"]
    assert one(chrome, "#not-guaranteed li").text.startswith("Clocks: nothing here")


def test_a_failing_program_comes_first(show: Show) -> None:
    chrome = show(failing())
    assert texts(chrome, "h2")[0].startswith("What went wrong")
    assert one(chrome, ".pick [aria-selected=true]").text.endswith("random programs agree")
    assert one(chrome, ".stepper").text.endswith("step 3 of 3, where they differ")
    differing = texts(chrome, ".rows .differs")
    assert differing == ["status ≠ 'done' 'leased'", "owner ≠ NULL 'w'"]
    assert texts(chrome, ".replies tr") == ["model replies 'done'", "module replies ≠ False"]


def test_a_program_is_walked_by_key(show: Show) -> None:
    chrome = show(failing())
    press(chrome, ".program [aria-current=step]", UP)
    assert one(chrome, ".stepper").text.endswith("step 2 of 3")
    assert chrome.switch_to.active_element.text.startswith("t1 = worker.claim(")
    assert not texts(chrome, ".rows .differs")
    chrome.find_elements("css selector", ".pick button")[0].click()
    assert "import worker" in one(chrome, "#failure pre").text


# --- the timeline -----------------------------------------------------------------------------------------------------


def test_ten_thousand_operations_can_be_filtered(show: Show) -> None:
    chrome = show({**valid(), "timelines": [crowd(10_000)]})
    assert one(chrome, "output").text == "10,000 of 10,000"
    one(chrome, ".timeline summary").click()
    before = painted(chrome)
    press(chrome, "input[type=search]", "redrive(")
    found = int(one(chrome, "output").text.partition(" ")[0])
    assert 0 < found < 1000
    assert painted(chrome) != before
    rows = texts(chrome, ".list tbody td:nth-child(3)")
    assert set(rows) == {"redrive"}
    assert len(rows) == 25
    one(chrome, "[title='remove every filter']").click()
    chrome.find_element("xpath", "//fieldset//label[contains(., 'claim')]/input").click()
    kinds = Counter(item[1] for item in crowd(10_000)["items"])
    assert one(chrome, "output").text == f"{10_000 - kinds['claim']:,} of 10,000"


def painted(chrome: Chrome) -> str:
    """The picture as it is once it has been drawn again."""
    twice = "requestAnimationFrame(() => requestAnimationFrame(() => done(picture.toDataURL())))"
    return str(
        chrome.execute_async_script(
            f"const picture = document.querySelector('{PICTURE}'), done = arguments[0]; {twice}"
        )
    )


COLOURS = """
const picture = document.querySelector(arguments[0]), style = getComputedStyle(document.documentElement);
const copy = document.createElement("canvas"), pen = copy.getContext("2d", { willReadFrequently: true });
[copy.width, copy.height] = [picture.width, picture.height];
pen.drawImage(picture, 0, 0);
const all = pen.getImageData(0, 0, copy.width, copy.height).data, seen = new Set();
for (let at = 0; at < all.length; at += 4) seen.add(all[at] << 16 | all[at + 1] << 8 | all[at + 2]);
return arguments[1].filter((kind) => seen.has(parseInt(style.getPropertyValue(`--${kind}`).slice(1), 16)));
"""
KINDS = (
    "lease",
    "enqueue",
    "claim",
    "finish",
    "redrive",
    "send",
    "refused",
    "kill",
    "wake",
    "commit",
    "again",
    "stall",
)
"""Each with a colour of its own."""


def test_every_kind_has_its_mark(show: Show) -> None:
    items = [[0, kind, 1000 * n, 1000 * n + 500, "a", 1, "text", "says"] for n, kind in enumerate(KINDS)]
    chrome = show({**valid(), "timelines": [{**crowd(1), "items": items, "end": 20_000}]})
    painted(chrome)
    assert set(chrome.execute_script(COLOURS, PICTURE, KINDS)) == set(KINDS)
    for box in chrome.find_elements("css selector", "fieldset input")[::2]:
        box.click()
    painted(chrome)
    assert set(chrome.execute_script(COLOURS, PICTURE, KINDS)) == set(shown_kinds(chrome))


def shown_kinds(chrome: Chrome) -> list[str]:
    """By the list beside the picture; there the longer names are as on the page."""
    chrome.execute_script("document.querySelector('.timeline details').open = true")
    names = {"stale finish refused": "refused", "wake-up": "wake", "receiver commits": "commit"}
    names["sent again, kept once"] = "again"
    return [names.get(text, text) for text in texts(chrome, ".list tbody td:nth-child(3)")]


def test_a_timeline_is_used_by_key(show: Show) -> None:
    chrome = show(valid())
    whole, all_of_it = one(chrome, ".extent").text, painted(chrome)
    press(chrome, PICTURE, "+")
    assert one(chrome, ".extent").text != whole
    assert painted(chrome) != all_of_it
    press(chrome, PICTURE, "0")
    assert one(chrome, ".extent").text == whole
    press(chrome, PICTURE, RIGHT, DOWN)
    chosen = one(chrome, ".chosen").text
    assert "pid" in chosen
    press(chrome, PICTURE, ESCAPE)
    assert one(chrome, ".chosen").text == "Nothing is chosen."


def test_the_wheel_zooms_once_the_picture_is_chosen(show: Show) -> None:
    chrome = show(valid())
    whole = one(chrome, ".extent").text
    wheel = (
        f"document.querySelector('{PICTURE}').dispatchEvent(new WheelEvent('wheel', {{deltaY: -300, clientX: 600}}))"
    )
    chrome.execute_script(wheel)
    assert one(chrome, ".extent").text == whole
    one(chrome, PICTURE).click()
    chrome.execute_script(wheel)
    assert one(chrome, ".extent").text != whole


def test_a_lane_may_be_a_seat(show: Show) -> None:
    chrome = show(valid())
    tall = one(chrome, ".stage").get_property("scrollHeight")
    chrome.find_element("xpath", "//label[contains(., 'seat')]/input").click()
    assert int(str(one(chrome, ".stage").get_property("scrollHeight"))) < int(str(tall))


# --- for everybody ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 700])
def test_a_narrow_page_does_not_scroll_sideways(show: Show, width: int) -> None:
    chrome = show(failing("worker." + "x" * 200))
    size(chrome, width)
    assert chrome.execute_script("return innerWidth") == width
    assert chrome.execute_script("const root = document.documentElement; return root.scrollWidth <= root.clientWidth")


CONTRASTS = """
const light = (text) => {
  const part = text.match(/[0-9.]+/g).slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
};
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (!/, 0\\)$/.test(colour)) return colour;
  }
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = {};
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.disabled) continue;
  const style = getComputedStyle(element), svg = element instanceof SVGElement;
  const [one, other] = [light(svg ? style.fill : style.color), light(behind(element))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05);
  if (ratio < 4.5) found[`${element.tagName} ${element.className} ${walker.currentNode.data.slice(0, 30)}`] = ratio;
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(show: Show, scheme: str) -> None:
    chrome = show(failing())
    size(chrome, 1280, scheme)
    dark = "return getComputedStyle(document.body.parentElement).backgroundColor === 'rgb(19, 21, 23)'"
    assert chrome.execute_script(dark) == (scheme == "dark")
    assert chrome.execute_script(CONTRASTS) == {}
    one(chrome, "#theme").click()
    assert chrome.execute_script(dark) == (scheme == "light")
    assert chrome.execute_script(CONTRASTS) == {}


# --- nothing but text -------------------------------------------------------------------------------------------------


def test_hostile_text_stays_text(show: Show) -> None:
    data = failing(HOSTILE)
    data["facts"].append([HOSTILE, HOSTILE])
    chrome = show({**data, "unanswered": [HOSTILE], "timelines": [{**crowd(50), "title": HOSTILE}]})
    assert one(chrome, ".difference").text == HOSTILE
    assert one(chrome, "#unanswered").text == HOSTILE
    assert not chrome.find_elements("css selector", "img")
    assert chrome.execute_script("return typeof hacked") == "undefined"


def test_data_cannot_leave_its_element() -> None:
    text = embedded({"a": HOSTILE, "b": "\u2028\ud800"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": "\u2028\ud800"}


def test_the_page_asks_nobody_for_anything() -> None:
    text = page(valid())
    assert "default-src 'none'" in text
    assert set(re.findall(r"https?://[^\"')\s]+", text)) == {"http://www.w3.org/2000/svg"}
