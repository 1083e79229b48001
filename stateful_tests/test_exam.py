"""What the exam makes of the gate's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateful_tests import exam, killers
from stateful_tests.exam import CANARY, Answer, Candidate
from stateful_tests.verdict import LAYERS


def answer(name: str, want: str, word: str) -> Answer:
    return Answer(Candidate("worker", name, Path("w.py"), want, "clause"), word)


SOUND = [answer("shipped", "valid", "valid"), answer(CANARY, "invalid", "invalid")]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([*SOUND, answer("wrong", "invalid", "invalid"), answer("right", "valid", "valid")], 0),
        ([*SOUND, answer("wrong", "invalid", "valid")], 1),
        ([*SOUND, answer("right", "valid", "invalid")], 1),
        ([*SOUND, answer("wrong", "invalid", "unknown")], 2),
        ([answer("shipped", "valid", "invalid"), SOUND[1]], 2),
        ([SOUND[0], answer(CANARY, "invalid", "valid")], 2),
    ],
    ids=["all right", "one missed", "a false alarm", "no answer", "the shipped one is wrong", "the canary lives"],
)
def test_the_answers_decide_the_exam(answers: list[Answer], status: int) -> None:
    assert exam._status(answers) == status


def test_a_missed_one_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(candidates: list[Candidate], *_: object) -> Iterator[Answer]:
        for each in candidates:
            missed = each.name in ("shipped", "a gap is tolerated")
            yield Answer(each, "valid") if missed else Answer(each, each.want, {"contract": "a check of today"})

    monkeypatch.setattr(exam, "answers", answers)
    monkeypatch.setattr(
        exam,
        "_candidates",
        lambda folder: [
            Candidate("client", name, folder, want, "clause")
            for name, want in (("shipped", "valid"), (CANARY, "invalid"), ("a gap is tolerated", "invalid"))
        ],
    )
    assert exam.main(["--kind", "client"]) == 1
    said = capsys.readouterr().out
    assert "found      1 of 2 wrong implementations" in said
    assert "not as it must be: client: a gap is tolerated: valid" in said
    assert "moved      2 found by a check that the record does not name" in said, "a miss is one too"
    assert said.endswith("exam: failed\n")


def test_the_rest_is_what_no_run_has_asked_every_layer_about() -> None:
    known: killers.Killers = {
        "worker": {"whole": dict.fromkeys(LAYERS), "half": {"contract": "a check"}, CANARY: dict.fromkeys(LAYERS)}
    }
    options = exam._parser().parse_args(["--full", "--rest"])
    candidates = [answer(name, "invalid", "").candidate for name in (CANARY, "whole", "half", "new")]
    assert [each.name for each in candidates if exam._is_chosen(each, options, known)] == [CANARY, "half", "new"]


@pytest.mark.parametrize("wrong", ["0", "-1", "two"])
def test_a_wrong_number_of_jobs_is_one_line(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    with pytest.raises(SystemExit):
        exam.main([f"--jobs={wrong}"])
    assert capsys.readouterr().err.endswith(f"argument --jobs: '{wrong}' is not a number from 1 on\n")
