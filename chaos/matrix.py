"""The matrix: every row of a hook table, in every kind of state from which an operation reaches it.

An experiment is data. The model says what must be left: the state before the operation where its change is lost, the
state after it where it is kept. Where the two are the same, nothing could go wrong: such a row is void, and refused.

What has no hook is a row as well: the statements of each operation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from chaos import stages
from chaos.child import Order
from chaos.systems import System
from model.contract import Crash, Hook


class Void(Exception):
    """The experiment could not have failed, so that its success would say nothing; one line says why."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The operations that prepare a file, and the one that then reaches all of its hooks."""

    name: str
    setup: tuple[Any, ...]
    op: Any


@dataclass(frozen=True, slots=True)
class Experiment:
    """After ``setup``, the process that performs ``op`` is killed in ``hook``, a fault hook or a stage.

    The ``op`` of the hook says which change is lost or kept, if there is more than one.

    ``tight``: on pages so small and with a cache so small that the change is in the file before its COMMIT. Until the
    next opener has rolled it back nobody can read, so that the module is the first to open the file after the kill.
    """

    scene: str
    setup: tuple[Any, ...]
    op: Any
    hook: Hook
    tight: bool = False

    system: ClassVar[System]

    @property
    def name(self) -> str:
        return f"{self.scene}, killed in {self.hook.name}"

    @property
    def in_hook(self) -> bool:
        """Whether it is a fault hook that the process dies in."""
        return self.hook in self.system.hooks

    @property
    def change(self) -> Any:  # noqa: ANN401 - a plain operation of the system
        """What somebody else would do next in the place of the dead."""
        return self.op

    def before(self) -> Any:  # noqa: ANN401 - the model's state
        """The state in which the operation starts."""
        return replay(self.system, self.setup)

    def outcomes(self) -> tuple[Any, Any]:
        """The states that the kill must leave if the change is lost, and if it is kept; Void if it shows nothing."""
        return _outcomes(self)

    def ends(self, before: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """What there is without the change, and with it."""
        return before, self.system.model.step(before, self.op)[0]

    def calls(self, before: Any) -> list[str]:  # noqa: ANN401
        """What is called until the process stands still, in order: hooks; then the stage."""
        reached = self.system.model.hooks_reached
        if self.in_hook and self.hook.op is type(self.op):
            return [hook.name for hook in reached(before, Crash(self.op, self.hook.name))]
        return [*_hooks_before(self.hook.name, reached(before, self.op)), *_if_stage(self.hook)]

    def order(self, module: Path, path: Path) -> Order:
        """What to tell the process that dies."""
        return Order(
            self.system.kind.name, str(module), str(path), repr(self.op), self.hook.name, self.starts, self.tight
        )

    @property
    def starts(self) -> str:
        """The stage from which on a statement counts; empty if each does."""
        return ""


@functools.lru_cache(maxsize=1)
def _outcomes(experiment: Experiment) -> tuple[Any, Any]:
    """Asked for when its company is drawn, and again when it is carried out."""
    before = experiment.before()
    lost, kept = experiment.ends(before)
    if lost == kept:
        raise Void(f"{experiment.name}: lost and kept are the same state")
    if experiment.hook.name not in experiment.calls(before):
        raise Void(f"{experiment.name}: the hook is listed, but never fired")
    return lost, kept


_STATEMENTS: Final = {
    stages.BEFORE_BEGIN: False,
    stages.AFTER_WRITE: False,
    stages.BEFORE_COMMIT: False,
    stages.COMMIT_DONE: True,
}
"""Stages of every operation that changes something, and whether its change is then kept."""


def _hooks_before(stage: str, hooks: Iterable[Hook]) -> list[str]:
    """The hooks that are called before a statement: none before the first write, before COMMIT all that lose it."""
    early = stage in (stages.BEFORE_BEGIN, stages.AFTER_WRITE)
    return [] if early else [hook.name for hook in hooks if not hook.kept]


def _if_stage(hook: Hook) -> list[str]:
    return [hook.name] if hook.name in _STATEMENTS else []


E = TypeVar("E", bound=Experiment)


def matrix(form: type[E], hooks: Iterable[Hook], scenes: Iterable[Scene]) -> tuple[E, ...]:
    """Every hook in every scene of its operation; Void if a hook has none."""
    scenes = tuple(scenes)
    return tuple(experiment for hook in hooks for experiment in _row(form, hook, scenes))


def _row(form: type[E], hook: Hook, scenes: tuple[Scene, ...]) -> list[E]:
    row = [form(scene.name, scene.setup, scene.op, hook) for scene in scenes if type(scene.op) is hook.op]
    if not row:
        raise Void(f"{hook.name} of {hook.op.__name__}: the hook is listed, but no experiment reaches it")
    return row


def statements(*ops: type) -> Iterator[Hook]:
    """The stages of operations that have changes to make, in the form of hooks."""
    return (Hook(stage, op, kept) for op in ops for stage, kept in _STATEMENTS.items())


@functools.lru_cache(maxsize=8)
def replay(system: System, ops: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the model's state
    """What the operations leave of an empty file."""
    state = system.model.EMPTY
    for op in ops:
        state, _ = system.model.step(state, op)
    return state
