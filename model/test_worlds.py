"""The command explores every kind of world, and says in one line what it does not know."""

from __future__ import annotations

import pytest

from model.__main__ import main
from model.worlds import WORLDS, always


def test_help_lists_every_world(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for name, family in WORLDS.items():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert f"{family.sizes[name][0]:,} states" in line
        assert line.endswith(family.scopes[name].about)
        assert len(family.scopes[name].about) > 20


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], [""], ["one", "--witness", "nosuch"], ["session", "--diagram"]],
)
def test_what_is_not_there_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m model: ")
    assert err.count("\n") == 1


def test_a_world_shows_its_properties(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("world call: 918 states, 3,446 transitions, ")
    for name, clause in always(WORLDS["call"]):
        assert f"always     {name} [{clause}]\n" in out
    for question in WORLDS["call"].sometimes:
        assert f"sometimes  {question.name}: after " in out


WITNESSES = {
    "one": ("enqueue answers False", "import worker"),
    "brief": ("consume_line acknowledges a known event", "import client"),
    "call": ("an event meets Gap", " 1  event 1 is published"),
}


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_is_shown_in_the_words_of_its_world(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    question, start = WITNESSES[name]
    assert main([name, "--witness", question]) == 0
    assert capsys.readouterr().out.startswith(start)


def test_a_world_that_lacks_something_is_not_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pair"]) == 1
    assert "redrive answers True: NEVER in this world" in capsys.readouterr().out
