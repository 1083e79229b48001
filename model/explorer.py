"""Breadth-first search over any pure step function: every state, every transition, the shortest way to each.

The search knows nothing of queues. A ``Scope`` says where to start, what may be asked in a state, and which states are
one and the same but for names; a property says what must hold, and the first path that breaks it is a shortest one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

REPORT_EVERY = 200_000

S = TypeVar("S")
O = TypeVar("O")  # noqa: E741 - the operations, as S the states and R the replies
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Scope(Generic[S, O, R]):
    """A finite world: ``ops(state)`` is everything that may be asked there.

    ``canonical`` picks one of the states that differ only by a symmetry. It is sound if ``step`` and ``ops`` commute
    with the symmetry; identity is always sound. ``about`` is a few words on what is in it.
    """

    name: str
    initial: S
    step: Callable[[S, O], tuple[S, R]]
    ops: Callable[[S], Iterable[O]]
    canonical: Callable[[S], S] = lambda state: state
    about: str = ""


@dataclass(frozen=True, slots=True)
class Invariant(Generic[S]):
    """Always: true in every reachable state."""

    name: str
    clause: str
    holds: Callable[[S], bool]


@dataclass(frozen=True, slots=True)
class Law(Generic[S, O, R]):
    """Always: true of every transition ``(before, op, after, reply)``."""

    name: str
    clause: str
    holds: Callable[[S, O, S, R], bool]


@dataclass(frozen=True, slots=True)
class Sometimes(Generic[S, O, R]):
    """True of at least one transition; a scope in which it never is would prove nothing about it."""

    name: str
    seen: Callable[[S, O, S, R], bool]


@dataclass(frozen=True, slots=True)
class Step(Generic[S, O, R]):
    """One step of a concrete path."""

    before: S
    op: O
    after: S
    reply: R


class Broken(Exception, Generic[S, O, R]):
    """A property does not hold; ``path`` is a shortest one that shows it."""

    def __init__(self, name: str, path: list[Step[S, O, R]]) -> None:
        super().__init__(f"{name}: broken after {len(path)} steps")
        self.name = name
        self.path = path


@dataclass(slots=True)
class World(Generic[S, O, R]):
    """What a search has found: state ``n`` was first reached from state ``parents[n]`` by ``via[n]``."""

    scope: Scope[S, O, R]
    states: list[S] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("q"))
    via: list[O | None] = field(default_factory=list)
    transitions: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, list[Step[S, O, R]]] = field(default_factory=dict)

    def path(self, number: int, *last: O) -> list[Step[S, O, R]]:
        """A shortest concrete program from the initial state to state ``number``, and through ``last``."""
        ops: list[O] = list(last)
        while (op := self.via[number]) is not None:
            ops.insert(0, op)
            number = self.parents[number]
        return list(self._concrete(ops))

    def _concrete(self, ops: list[O]) -> Iterator[Step[S, O, R]]:
        """Undo the symmetry: at each step, an operation of the concrete state that leads to the same canonical one."""
        scope = self.scope
        chosen = concrete = scope.initial
        for op in ops:
            after, reply = scope.step(chosen, op)
            goal = scope.canonical(after)
            step = next(
                step
                for step in self._alike(concrete, op)
                if scope.canonical(step.after) == goal and type(step.reply) is type(reply)
            )
            yield step
            chosen, concrete = goal, step.after

    def _alike(self, before: S, op: O) -> Iterator[Step[S, O, R]]:
        for other in (op, *self.scope.ops(before)):
            if type(other) is type(op):
                yield Step(before, other, *self.scope.step(before, other))


def explore(
    scope: Scope[S, O, R],
    invariants: Iterable[Invariant[S]] = (),
    laws: Iterable[Law[S, O, R]] = (),
    sometimes: Iterable[Sometimes[S, O, R]] = (),
    progress: Callable[[World[S, O, R], int, int], None] | None = None,
) -> World[S, O, R]:
    """Search the whole scope; Broken at the first property that fails.

    ``progress(world, states done, transitions done)`` is called every ``REPORT_EVERY`` transitions or so.
    """
    world: World[S, O, R] = World(scope, [scope.initial], array("q", [0]), [None])
    invariants, laws, questions = tuple(invariants), tuple(laws), list(sometimes)
    step, canonical, states, counts = scope.step, scope.canonical, world.states, Counter[type[O]]()
    known, reported = {scope.initial}, 0
    _require(world, invariants, scope.initial, 0)
    for number, before in enumerate(states):  # the list grows meanwhile: this is the queue of the search
        for op in scope.ops(before):
            after, reply = step(before, op)
            counts[type(op)] += 1
            for law in laws:
                if not law.holds(before, op, after, reply):
                    raise Broken(law.name, world.path(number, op))
            if questions:
                questions = _still_open(world, questions, number, Step(before, op, after, reply))
            # Most states are their own canonical one, and looking one up costs less than making it.
            if after is before or after in known or (after := canonical(after)) in known:
                continue
            known.add(after)
            _require(world, invariants, after, number, op)
            states.append(after)
            world.parents.append(number)
            world.via.append(op)
        if progress is not None and counts.total() >= reported + REPORT_EVERY:
            reported = counts.total()
            progress(world, number + 1, reported)
    world.transitions = Counter({kind.__name__: count for kind, count in counts.items()})
    return world


def _require(world: World[S, O, R], invariants: tuple[Invariant[S], ...], state: S, parent: int, *op: O) -> None:
    for invariant in invariants:
        if not invariant.holds(state):
            raise Broken(invariant.name, world.path(parent, *op))


def _still_open(
    world: World[S, O, R], questions: list[Sometimes[S, O, R]], number: int, step: Step[S, O, R]
) -> list[Sometimes[S, O, R]]:
    """The questions that this transition does not answer; for those it does, the world keeps the path."""
    answered = [question for question in questions if question.seen(step.before, step.op, step.after, step.reply)]
    for question in answered:
        world.witnesses[question.name] = world.path(number, step.op)
    return [question for question in questions if question not in answered] if answered else questions
