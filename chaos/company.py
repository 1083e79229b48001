"""The same death in other surroundings, which a seed draws: the same ones for all experiments of a scene.

Only the surroundings change. The model says whether the hook is still reached, and whether what is lost and what is
kept still differ: a draw that would make the experiment void is thrown away.
"""

from __future__ import annotations

import contextlib
import functools
import random
from dataclasses import replace
from typing import Final, TypeVar

from chaos import stream_variation, variation
from chaos.experiments import QueueExperiment
from chaos.matrix import Experiment, Void
from chaos.stream_experiments import StreamExperiment
from model.contract import Hook

DRAWS: Final = 8

Drawn = QueueExperiment | StreamExperiment
E = TypeVar("E", bound=Drawn)

_ANY_HOOK: Final = Hook("", object, kept=False)


def vary(experiment: E, seed: str) -> E:
    """The experiment in surroundings that ``seed`` draws; as it is, if every draw would make it void."""
    scene = replace(experiment, hook=_ANY_HOOK)
    for number in range(DRAWS):
        with contextlib.suppress(Void):
            drawn = _draw(scene, f"{seed}:{number}")
            varied = replace(experiment, setup=drawn.setup, op=drawn.op)
            varied.outcomes()
            return varied
    return experiment


@functools.lru_cache(maxsize=DRAWS)
def _draw(scene: Drawn, seed: str) -> Experiment:
    """Once for all hooks of the scene, whose experiments come one after another."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    if isinstance(scene, StreamExperiment):
        return stream_variation.draw(scene, rng)
    return variation.draw(scene, rng)
