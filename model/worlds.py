"""Every finite world there is, by name: what is in it, what must hold in it, and how a path through it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from model import (
    invariants,
    scopes,
    session_invariants,
    session_scopes,
    stream_invariants,
    stream_scopes,
)
from model.contract import CLIENT, WORKER, Kind
from model.counterexample import Line, program
from model.explorer import Invariant, Law, Scope, Sometimes, Step
from model.session_story import story

Show = Callable[[Sequence[Step[Any, Any, Any]]], list[str]]


class Family(NamedTuple):
    """Worlds of the same states and moves, and their properties."""

    name: str
    scopes: Mapping[str, Scope[Any, Any, Any]]
    sizes: Mapping[str, tuple[int, int]]
    invariants: Sequence[Invariant[Any]]
    laws: Sequence[Law[Any, Any, Any]]
    sometimes: Sequence[Sometimes[Any, Any, Any]]
    show: Show


def _as_program(kind: Kind) -> Show:
    """A path as source to paste, with what the model answers."""
    return lambda path: program([Line(step.op, 1, step.reply) for step in path], kind)


FAMILIES: Final = (
    Family(
        "queue",
        scopes.SCOPES,
        scopes.SIZES,
        invariants.INVARIANTS,
        invariants.LAWS,
        invariants.SOMETIMES,
        _as_program(WORKER),
    ),
    Family(
        "store",
        stream_scopes.SCOPES,
        stream_scopes.SIZES,
        stream_invariants.INVARIANTS,
        stream_invariants.LAWS,
        stream_invariants.SOMETIMES,
        _as_program(CLIENT),
    ),
    Family(
        "session",
        session_scopes.SCOPES,
        session_scopes.SIZES,
        session_invariants.INVARIANTS,
        session_invariants.LAWS,
        session_invariants.SOMETIMES,
        story,
    ),
)

WORLDS: Final = {name: family for family in FAMILIES for name in family.scopes}
"""The family of each world; no two have the same name."""


def always(family: Family) -> list[tuple[str, str]]:
    """What holds in every state and of every transition, each with its clause."""
    in_states = [(each.name, each.clause) for each in family.invariants]
    return in_states + [(each.name, each.clause) for each in family.laws]


def listed() -> Iterator[str]:
    """A line for each world: its name, how large it is, what is in it."""
    for name, family in WORLDS.items():
        states, _ = family.sizes[name]
        yield f"  {name:8} {states:>9,} states  {family.scopes[name].about}"
