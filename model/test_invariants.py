"""In the small worlds everything that must hold does, everything that must be seen is, and nothing has changed."""

from __future__ import annotations

import pytest

from model.explorer import explore
from model.invariants import INVARIANTS, LAWS, SOMETIMES
from model.scopes import SCOPES, SIZES

SMALL = [name for name, (_, transitions) in SIZES.items() if transitions < 100_000]
WITHOUT_REDRIVES = {question.name for question in SOMETIMES if "redrive" in question.name} - {
    "redrive raises ValueError"
}


def test_every_world_is_pinned() -> None:
    assert SIZES.keys() == SCOPES.keys()


@pytest.mark.parametrize("name", SMALL)
def test_a_world_is_as_large_as_ever_and_keeps_its_properties(name: str) -> None:
    world = explore(SCOPES[name], INVARIANTS, LAWS)
    assert (len(world.states), world.transitions.total()) == SIZES[name]


@pytest.mark.parametrize(("name", "unseen"), [("one", set[str]()), ("again", set[str]()), ("pair", WITHOUT_REDRIVES)])
def test_what_must_be_seen_is_seen(name: str, unseen: set[str]) -> None:
    world = explore(SCOPES[name], sometimes=SOMETIMES)
    assert {question.name for question in SOMETIMES} - world.witnesses.keys() == unseen
