"""In the small worlds everything that must hold does, everything that must be seen is, and nothing has changed."""

from __future__ import annotations

import pytest

from model.explorer import explore
from model.invariants import SOMETIMES
from model.worlds import FAMILIES, WORLDS, Family, always

SMALL = [name for name, family in WORLDS.items() if family.sizes[name][1] < 120_000]
WITHOUT_REDRIVES = {question.name for question in SOMETIMES if "redrive" in question.name} - {
    "redrive raises ValueError"
}
UNSEEN = {"pair": WITHOUT_REDRIVES}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_world_is_pinned(family: Family) -> None:
    assert family.sizes.keys() == family.scopes.keys()


def test_no_two_worlds_share_a_name() -> None:
    assert len(WORLDS) == sum(len(family.scopes) for family in FAMILIES)
    assert [WORLDS[name].scopes[name].name for name in WORLDS] == list(WORLDS)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_property_has_a_name_of_its_own(family: Family) -> None:
    names = [name for name, _ in always(family)] + [question.name for question in family.sometimes]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", SMALL)
def test_a_world_is_as_large_as_ever_and_keeps_its_properties(name: str) -> None:
    family = WORLDS[name]
    world = explore(family.scopes[name], family.invariants, family.laws)
    assert (len(world.states), world.transitions.total()) == family.sizes[name]


@pytest.mark.parametrize("name", ["one", "again", "pair", "brief", "stream", "call"])
def test_what_must_be_seen_is_seen(name: str) -> None:
    family = WORLDS[name]
    world = explore(family.scopes[name], sometimes=family.sometimes)
    assert {question.name for question in family.sometimes} - world.witnesses.keys() == UNSEEN.get(name, set())
