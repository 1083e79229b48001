"""The blind edits, and what their score says; Cosmic Ray, which is not installed here, is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from stateful_tests import blind
from stateful_tests.exam import Answer, Candidate
from stateful_tests.options import ROOT


@pytest.fixture(autouse=True)
def _without_cosmic_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind, "_python", lambda _: [])


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the few that were judged; the first two survive."""
    judged: list[str] = []
    sql = blind._sql

    def answers(candidates: list[Candidate], *_: object) -> Iterator[Answer]:
        for number, each in enumerate(candidates):
            judged.append(each.name)
            yield Answer(each, "valid" if number < 2 else "invalid")

    monkeypatch.setattr(blind, "answers", answers)
    monkeypatch.setattr(blind, "_sql", lambda text: islice(sql(text), 6))
    return judged


def test_each_edit_is_of_one_string_and_no_docstring(tmp_path: Path) -> None:
    text = (ROOT / "client.py").read_text()
    made = list(blind._candidates("client", tmp_path))
    assert len({each.path.read_text() for each in made}) == len(made) > 50
    for each in made:
        mutated = each.path.read_text()
        before, after = (list(ast.walk(ast.parse(source))) for source in (text, mutated))
        edits = [(a, b) for a, b in zip(before, after, strict=True) if isinstance(a, ast.Constant) and _differ(a, b)]
        assert len(edits) == 1, each.name
        assert ast.get_docstring(ast.parse(text)) == ast.get_docstring(ast.parse(mutated))


def _differ(a: ast.AST, b: ast.AST) -> bool:
    return ast.dump(a) != ast.dump(b)


def test_an_edit_is_named_by_its_place_and_its_lines(tmp_path: Path) -> None:
    names = [each.name for each in blind._candidates("client", tmp_path)]
    line = 'last INTEGER NOT NULL, total INTEGER NOT NULL)""",'
    assert f"_TABLES: Final: {line} -> {line.replace('NOT NULL', 'NULL', 1)}" in names
    assert len(set(names)) == len(names)


def test_the_score_names_what_survived(answered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert blind.main(["--kind", "client"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("survived   client: ") for line in said if line.startswith("survived")] == answered[:2]
    total = len(answered)
    assert f"found      {total - 2} of {total} mutants that differ, {(total - 2) / total:.1%}" in said


def test_each_edit_that_is_no_fault_has_a_reason() -> None:
    reasons = blind.survivors(blind.SURVIVORS.read_text())
    assert {kind for kind, _ in reasons} <= {"worker", "client"}
    assert all(" -> " in name and reason for (_, name), reason in reasons.items())


def test_what_has_a_reason_is_not_judged_again(
    answered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert blind.main(["--kind", "client"]) == 1
    first = answered[:2]
    answered.clear()
    reasons = tmp_path / "survivors.txt"
    reasons.write_text("# It is the same.\n" + "".join(f"client: {name}\n" for name in first))
    monkeypatch.setattr(blind, "SURVIVORS", reasons)
    blind.main(["--kind", "client"])
    assert not set(first) & set(answered)
    answered.clear()
    assert blind.main(["--kind", "client", "--known"]) == 0
    assert answered[:2] == first
    with reasons.open("a") as file:
        file.write("\n# It was the same.\nclient: open_store: an edit -> of old\n")
    assert blind.main(["--kind", "client", "--known"]) == 1
    assert "no such    client: open_store: an edit -> of old: " in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ["0/0", "3/2", "1", "1/2/3", "x"])
def test_a_wrong_part_is_one_line(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    with pytest.raises(SystemExit):
        blind.main(["--part", wrong])
    assert f"argument --part: '{wrong}' is not I/N" in capsys.readouterr().err


def test_parts_make_the_whole(answered: list[str]) -> None:
    blind.main(["--kind", "client"])
    whole = [*answered]
    answered.clear()
    for part in ("1/2", "2/2"):
        blind.main(["--kind", "client", "--part", part])
    assert sorted(answered) == sorted(whole)
