"""The status diagram, read off an explored world: which operation takes a job from which status to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from model.contract import Claim, Enqueue, Finish, Job, Op, Redrive, State
from model.explorer import explore
from model.scopes import SCOPES

NOWHERE = "[*]"


def diagram(scope: str = "one") -> str:
    """Mermaid source (stateDiagram-v2) of every change of status in the scope, in a fixed order."""
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    world = explore(SCOPES[scope])
    for before in world.states:
        for op in world.scope.ops(before):
            after, _ = world.scope.step(before, op)
            for old, new in _changes(before, after):
                if label := _label(op, new):
                    edges[old.status if old else NOWHERE, new.status].add(label)
    lines = [f"    {old} --> {new}: {', '.join(sorted(labels))}" for (old, new), labels in sorted(edges.items())]
    return "\n".join(["stateDiagram-v2", *lines])


def _changes(before: State, after: State) -> Iterator[tuple[Job | None, Job]]:
    for number, new in enumerate(after.jobs):
        old = before.jobs[number] if number < len(before.jobs) else None
        if old != new:
            yield old, new


def _label(op: Op, new: Job) -> str:
    """The operation, and for a dead job its reason; a crash shows nothing that the whole operation does not."""
    match op:
        case Finish():
            label = f"finish {op.outcome}"
        case Claim() | Enqueue() | Redrive():
            label = type(op).__name__.lower()
        case _:
            return ""
    return f"{label} ({new.reason})" if new.status == "dead" else label
