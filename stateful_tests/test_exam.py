"""What the exam makes of the gate's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateful_tests import exam
from stateful_tests.exam import CANARY, Answer, Candidate


def answer(name: str, want: str, word: str) -> Answer:
    return Answer(Candidate("worker", name, Path("w.py"), want, "clause"), word, (), "", 1.0)


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
    def judge(candidate: Candidate, *_: object) -> Answer:
        word = "valid" if candidate.name in ("shipped", "a gap is tolerated") else candidate.want
        return Answer(candidate, word, (), "", 1.0)

    monkeypatch.setattr(exam, "_judge", judge)
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
    assert said.endswith("exam: failed\n")


def test_a_sample_keeps_what_the_exam_needs(tmp_path: Path) -> None:
    options = exam._parser().parse_args(["--sample", "3", "--seed", "7"])
    chosen = exam._sampled(list(exam._candidates(tmp_path)), options)
    for kind, mutants in exam.MUTANTS.items():
        names = [each.name for each in chosen if each.kind == kind]
        assert {"shipped", CANARY} <= set(names)
        assert len([name for name in names if name in {mutant.name for mutant in mutants}]) == 4
