"""What a run of the gate looks like: a real failing one, the rows of its steps, and what the README says of it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from model.contract import Claim, Enqueue, Finish
from model.counterexample import Violation
from model.queue import Queue, load
from stateful_tests.lockstep import Lockstep
from stateful_tests.picture import ARTIFACTS, NOT_GUARANTEED, _artifact, folder_of
from stateful_tests.test_gate import ROOT, edited, gate

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def test_a_violation_carries_the_rows_of_both(tmp_path: Path) -> None:
    kept = edited(tmp_path, "owner = NULL, lease_until = NULL\nWHERE", "owner = NULL\nWHERE")
    with Lockstep(Queue(load(kept), tmp_path / "queue.db"), Counter()) as pair:
        pair.do(Enqueue("a", 5, 0, 100))
        ticket = pair.do(Claim("w", 0, 50)).value  # type: ignore[union-attr]  # it is a ticket
        with pytest.raises(Violation) as failed:
            pair.do(Finish(ticket, "ok", 5))  # type: ignore[arg-type]
    story = failed.value.story
    assert story is not None
    assert [step["rows"][0][2] for step in story["steps"][:2]] == ["=", "="]
    table, model, file = story["steps"][2]["rows"][0]
    differing = [name for name, *both in zip(story["columns"][table], model, file, strict=True) if both[0] != both[1]]
    assert differing == ["lease_until"]


WRONG = {
    "a reply": (
        "return _write(con, insert)",
        "return not _write(con, insert)",
        "stateful_tests/test_stateful.py::test_random_programs_agree_with_the_model[0]",
        ".replies .differs",
        "model replies True",
    ),
    "a row": (
        "_DUE} <= :now_ms",
        "_DUE} < :now_ms",
        "stateful_tests/test_transitions.py::test_every_transition_agrees_with_the_model[0]",
        ".rows .differs",
        "status ≠",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_failing_run_is_seen_step_by_step(browser: Chrome, tmp_path: Path, what: str) -> None:
    old, new, check, place, says = WRONG[what]
    run = gate(tmp_path, "--worker", str(edited(tmp_path, old, new)), "--first", check)
    path = tmp_path / "latest" / "report.html"
    assert f"  report  {path.resolve()}" in run.out.splitlines()
    assert "columns" not in (tmp_path / "latest" / "junit.xml").read_text()
    browser.get(path.as_uri())
    look = partial(browser.find_element, "css selector")
    assert look("#verdict").text == "invalid"
    assert look(".difference").text == run.verdict["failures"][0]["difference"]
    assert look(place).text.startswith(says)
    assert look("#layers .invalid").text == "invalid"


def test_what_was_put_aside_may_be_torn(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a::test")
    assert _artifact(tmp_path, "a::test", "storm.json") is None
    folder.mkdir(parents=True)
    (folder / "storm.json").write_text('{"lanes": [')
    assert folder.parent == tmp_path / ARTIFACTS
    assert _artifact(tmp_path, "a::test", "storm.json") is None


def test_the_readme_names_what_is_not_guaranteed() -> None:
    readme = (ROOT / "README.md").read_text()
    for lines in NOT_GUARANTEED.values():
        for what in lines:
            assert f"\n- {what}" in readme, what
