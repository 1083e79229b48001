"""A kill is a seed, a round and an experiment: from these three it can be repeated alone."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from chaos import stages
from chaos.experiments import EXPERIMENTS, Experiment
from chaos.forks import Server
from chaos.openings import OPENINGS, Opening, check_opening
from chaos.trial import Shelf, check
from chaos.variation import vary
from model.contract import FAULT_HOOKS
from model.queue import Queue

Death = Experiment | Opening


class BadInput(Exception):
    """What the caller asks for does not exist; one line says so."""


def stage(death: Death) -> str:
    """Where it dies: a fault hook, or one of ``chaos.stages``."""
    return death.hook.name if isinstance(death, Experiment) else death.stage


def kept(death: Death) -> bool:
    """Whether its change must be there afterwards."""
    return death.hook.kept if isinstance(death, Experiment) else death.kept


def slug(death: Death) -> str:
    """The experiment's name for a command line."""
    return f"{re.sub('[^a-z0-9]+', '-', death.scene.lower())}.{stage(death)}"


_ALL: Final[tuple[Death, ...]] = (*EXPERIMENTS, *OPENINGS)
DEATHS: Final = {slug(death): death for death in _ALL}
"""Every experiment by its name."""


def chosen(selection: str) -> list[str]:
    """The experiment of that name, or else all whose names have the text in them; BadInput if there is none."""
    if selection in DEATHS:
        return [selection]
    names = [name for name in DEATHS if selection.lower().replace(" ", "-") in name]
    if names:
        return names
    near = difflib.get_close_matches(selection, DEATHS, n=1, cutoff=0.3)
    hint = f"; the nearest is {near[0]}" if near else ""
    raise BadInput(f"no experiment has {selection!r} in its name{hint}; `python -m chaos list` prints them all")


class Kill(NamedTuple):
    """``str`` of it is its token, which ``parse`` reads back."""

    seed: int
    turn: int
    name: str

    def __str__(self) -> str:
        return f"{self.seed}:{self.turn}:{self.name}"

    def death(self) -> Death:
        """In round 0 the experiment as it is, so that what it shows is short; later with company.

        The experiments of a scene share their company within a round. How a file is opened has none.
        """
        death = DEATHS[self.name]
        if isinstance(death, Opening) or self.turn == 0:
            return death
        return vary(death, random.Random(f"{self.seed}:{self.turn}:{death.scene}"))  # noqa: S311 - repeatable


def parse(token: str) -> Kill:
    """The kill that ``token`` stands for; BadInput if it stands for none."""
    match = re.fullmatch(r"([0-9]{1,20}):([0-9]{1,20}):(.+)", token)
    if match is None:
        raise BadInput(f"{token!r} is no token: it is SEED:ROUND:EXPERIMENT, as `python -m chaos run` prints it")
    if match[3] not in DEATHS:
        raise BadInput(f"{token!r} is no token of this version: it has no experiment {match[3]}")
    return Kill(int(match[1]), int(match[2]), match[3])


class Turn(NamedTuple):
    """A kill and its number; ``group`` is that of its scene, one after the other in an endless row."""

    number: int
    group: int
    kill: Kill


def turns(seed: int, names: Sequence[str], first: int = 0) -> Iterator[Turn]:
    """Round after round, from round ``first`` on: every experiment, scene by scene, in an order that ``seed`` draws."""
    scenes: dict[str, list[str]] = {}
    for name in names:
        scenes.setdefault(DEATHS[name].scene, []).append(name)
    number, group = 0, 0
    for turn in itertools.count(first):
        rng = random.Random(f"{seed}:{turn}")  # noqa: S311 - repeatable, not secret
        for scene in rng.sample(list(scenes), len(scenes)):
            for name in rng.sample(scenes[scene], len(scenes[scene])):
                yield Turn(number, group, Kill(seed, turn, name))
                number += 1
            group += 1


def fingerprint(kill: Kill, death: Death) -> int:
    """The same for the same kill, and for no other: of their sum, which knows no order, a run can tell its kills."""
    return int.from_bytes(hashlib.sha256(f"{kill} {death!r}".encode()).digest()[:8])


@dataclass(frozen=True, slots=True)
class Place:
    """Where kills happen: the queue file, the file of the module, and what forks; without it, fresh interpreters."""

    queue: Queue
    module: Path
    server: Server | None
    shelf: Shelf = field(default_factory=Shelf)


def carry_out(death: Death, place: Place) -> None:
    """One kill and its checks. Unanswered, or a Violation with the program that leads there."""
    did: Counter[str] = Counter()
    if isinstance(death, Opening):
        check_opening(death, place.queue, place.module, did, place.server)
    else:
        check(death, place.queue, place.module, did, place.server, place.shelf)


def kind(death: Death) -> str:
    """The kind of fault, as a report counts it."""
    end = "change kept" if kept(death) else "change lost"
    return f"{_where(death)}, {end}"


def _where(death: Death) -> str:
    if isinstance(death, Opening):
        return "killed while it opened a queue file"
    if death.tight:
        return "killed with a hot journal, its change already in the file"
    if death.hook in FAULT_HOOKS:
        return "killed in a fault hook"
    if death.hook.name in (stages.FIRST_CLOCK, stages.SEND, stages.ANSWERED, stages.SECOND_CLOCK):
        return "killed around its send"
    return "killed before or after a statement"
