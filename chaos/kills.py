"""A kill is a seed, a round and an experiment: from these three it can be repeated alone."""

from __future__ import annotations

import difflib
import functools
import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from chaos import stages, stream_experiments
from chaos.company import vary
from chaos.experiments import EXPERIMENTS, QueueExperiment
from chaos.forks import Server
from chaos.openings import OPENINGS, STORE_OPENINGS, Opening, check_opening
from chaos.shelf import Shelf
from chaos.stream_experiments import StreamExperiment
from chaos.trial import check
from model.contract import Kind
from model.port import Subject

Death = QueueExperiment | StreamExperiment | Opening


class BadInput(Exception):
    """What the caller asks for does not exist; one line says so."""


def stage(death: Death) -> str:
    """Where it dies: a fault hook, or one of ``chaos.stages``."""
    return death.stage if isinstance(death, Opening) else death.hook.name


def kept(death: Death) -> bool:
    """Whether its change must be there afterwards."""
    return death.kept if isinstance(death, Opening) else death.hook.kept


def kind_of(death: Death) -> Kind:
    """What is killed: something that uses a module of this kind."""
    return death.kind if isinstance(death, Opening) else death.system.kind


def slug(death: Death) -> str:
    """The experiment's name for a command line."""
    return f"{re.sub('[^a-z0-9]+', '-', death.scene.lower())}.{stage(death)}"


_ALL: Final[tuple[Death, ...]] = (*EXPERIMENTS, *OPENINGS, *stream_experiments.EXPERIMENTS, *STORE_OPENINGS)
DEATHS: Final = {slug(death): death for death in _ALL}
"""Every experiment by its name."""


def chosen(selection: str, kinds: Collection[str]) -> list[str]:
    """The experiment of that name, or else all whose names have the text in them, among those that kill something of
    these kinds; BadInput if there is none.
    """
    all_ = [name for name, death in DEATHS.items() if kind_of(death).name in kinds]
    if selection in all_:
        return [selection]
    names = [name for name in all_ if selection.lower().replace(" ", "-") in name]
    if names:
        return names
    near = difflib.get_close_matches(selection, all_, n=1, cutoff=0.3)
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
        return vary(death, f"{self.seed}:{self.turn}:{death.scene}")


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
    told = repr(death) if isinstance(death, Opening) else f"{_told(death.setup)} {death.op!r}"
    return int.from_bytes(hashlib.sha256(f"{kill} {told}".encode()).digest()[:8])


@functools.lru_cache(maxsize=1)
def _told(setup: tuple[Any, ...]) -> str:
    """Once for all experiments of a scene: it may be long."""
    return repr(setup)


@dataclass(frozen=True, slots=True)
class Place:
    """Where kills happen: the module, its own file, and what forks; without that, fresh interpreters."""

    subject: Subject[Any, Any]
    module: Path
    server: Server | None
    shelf: Shelf = field(default_factory=Shelf)


def carry_out(death: Death, place: Place) -> None:
    """One kill and its checks. Unanswered, or a Violation with the program that leads there."""
    did: Counter[str] = Counter()
    if isinstance(death, Opening):
        check_opening(death, place.subject, place.module, did, place.server, place.shelf)
    else:
        check(death, place.subject, place.module, did, place.server, place.shelf)


def kind(death: Death) -> str:
    """The kind of fault, as a report counts it."""
    end = "change kept" if kept(death) else "change lost"
    return f"{_where(death)}, {end}"


def _where(death: Death) -> str:
    who = kind_of(death).name
    if isinstance(death, Opening):
        return f"{who} killed while it opened its file"
    if death.tight:
        return f"{who} killed with a hot journal, its change already in the file"
    if death.in_hook:
        return f"{who} killed in a fault hook"
    if death.hook.name in (stages.FIRST_CLOCK, stages.SEND, stages.ANSWERED, stages.SECOND_CLOCK):
        return f"{who} killed around its send"
    return f"{who} killed before or after a statement"
