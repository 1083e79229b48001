"""The record of what has found which mutant: kept up to date, and read as a matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateful_tests import killers
from stateful_tests.verdict import LAYERS

EVERY = dict.fromkeys(LAYERS)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "killers.json"
    monkeypatch.setattr(killers, "FILE", file)
    return file


def test_what_is_recorded_is_read_back(file: Path) -> None:
    assert killers.read() == {}
    killers.record({"worker": {"a": {"contract": "x", "storm": None}}})
    assert killers.read() == {"worker": {"a": {"contract": "x", "storm": None}}}
    assert file.read_text().endswith("}\n")


def test_what_is_found_is_added_to_what_was_known() -> None:
    known: killers.Killers = {"worker": {"a": {"contract": "x", "schedules": "w"}, "gone": {"contract": "x"}}}
    found: killers.Killers = {"worker": {"a": {"storm": "y", "schedules": None}, "b": {"contract": "z"}}}
    assert killers.merged(known, found, {"worker": ["a", "b", "c"]}) == {
        "worker": {"a": {"contract": "x", "storm": "y", "schedules": None}, "b": {"contract": "z"}}
    }


def test_a_broken_record_is_named(file: Path) -> None:
    file.write_text("{")
    with pytest.raises(killers.Unreadable, match=r"killers\.json: "):
        killers.read()


def test_only_whole_rows_count_in_the_matrix() -> None:
    known: killers.Killers = {
        "worker": {
            "a": {**EVERY, "contract": "x", "storm": "y"},
            "b": {**EVERY, "storm": "y"},
            "not asked": {"contract": "x"},
        }
    }
    assert [name for name in known["worker"] if killers.is_whole(known, "worker", name)] == ["a", "b"]
    lines = list(killers.alone(known))
    assert len(lines) == len(LAYERS)
    assert lines[LAYERS.index("contract")] == "contract    alone misses 1 of 2; nothing else finds 0"
    assert lines[LAYERS.index("storm")] == "storm       alone misses 0 of 2; nothing else finds 1"


def test_what_finds_most_comes_first() -> None:
    known: killers.Killers = {
        "worker": {"a": {"contract": "x"}, "b": {"contract": "y"}, "c": {"contract": "y", "storm": None}}
    }
    assert killers.early(known, "worker", "a") == ("x", "y")
    assert killers.early(known, "worker", "new") == ("y", "x")
    assert killers.early(known, "client", "a") == ()


def test_of_each_the_first_layer_comes_first() -> None:
    known: killers.Killers = {"worker": {name: {"atomicity": "z", "contract": name} for name in ("a", "b")}}
    assert killers.early(known, "worker", "b") == ("b", "z", "a")
    assert killers.early(known, "worker", "new") == ("a", "b")
