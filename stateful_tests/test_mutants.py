"""The catalogues of wrong implementations: every edit still fits the shipped file, and makes a module that loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.contract import KINDS
from model.port import load
from stateful_tests.exam import CANARY, MUTANTS
from stateful_tests.mutants import RIGHT, Mutant, Unappliable, doubled
from stateful_tests.options import ROOT

LEAST = {"worker": 100, "client": 80}
RIGHT_ONES = [path for kind in KINDS for path in sorted((RIGHT / kind).glob("*.py"))]


def shipped(kind: str) -> str:
    return (ROOT / f"{kind}.py").read_text()


@pytest.mark.parametrize("kind", MUTANTS)
def test_there_are_many_wrong_ones(kind: str) -> None:
    assert len(MUTANTS[kind]) >= LEAST[kind]
    assert MUTANTS[kind][0].name == CANARY


@pytest.mark.parametrize("kind", MUTANTS)
def test_no_name_and_no_edit_stands_twice(kind: str) -> None:
    assert not [*doubled(MUTANTS[kind])]


@pytest.mark.parametrize("kind", MUTANTS)
def test_each_says_what_it_breaks(kind: str) -> None:
    for mutant in MUTANTS[kind]:
        assert mutant.name == mutant.name.strip() != ""
        assert mutant.clause.strip(), mutant.name
        assert not mutant.seen or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", mutant.seen), mutant.name


@pytest.mark.parametrize("kind", MUTANTS)
def test_few_wrong_ones_cannot_be_told_apart(kind: str) -> None:
    assert 20 * sum(bool(mutant.equivalent) for mutant in MUTANTS[kind]) <= len(MUTANTS[kind])


@pytest.mark.parametrize("kind", MUTANTS)
def test_every_edit_makes_another_module_that_loads(kind: str, tmp_path: Path) -> None:
    text = shipped(kind)
    for number, mutant in enumerate(MUTANTS[kind]):
        wrong = mutant.apply(text)
        assert wrong != text, mutant.name
        # Not one name for all: Python would take two of one size and second for the same, and load the first again.
        path = tmp_path / f"{kind}{number}.py"
        path.write_text(wrong)
        load(path, KINDS[kind])


@pytest.mark.parametrize("path", RIGHT_ONES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_right_one_loads(path: Path) -> None:
    load(path, KINDS[path.parent.name])


def test_an_edit_that_no_longer_fits_is_an_error() -> None:
    for old in ("nowhere", "a"):
        with pytest.raises(Unappliable, match="no longer applies"):
            Mutant("lost", "none", ((old, "b"),)).apply("a a")


def test_a_name_or_an_edit_that_stands_twice_is_named() -> None:
    one, same = Mutant("one", "c", (("a", "b"),)), Mutant("same edit", "c", (("a", "b"),))
    assert [*doubled((one, same))] == ["same edit"]
    assert [*doubled((one, one._replace(edits=(("a", "c"),))))] == ["one"]
