"""The status diagrams, read off what the model does: which operation takes a job, or an event, from where to where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from model import contract, events, stream
from model.contract import CLIENT, WORKER, Blocked, Claim, Crash, Enqueue, Finish, Job, Raise, Redrive, Reply, State
from model.events import Apply
from model.explorer import Step, explore
from model.scopes import SCOPES

NOWHERE = "[*]"

Edge = tuple[str, str, str]
"""From where, to where, by which operation."""


def diagram(scope: str = "one") -> str:
    """Mermaid source (stateDiagram-v2) of every change of status in the scope, in a fixed order."""
    world = explore(SCOPES[scope])
    edges: dict[tuple[str, str], set[str]] = {}
    for before in world.states:
        for op in world.scope.ops(before):
            for old, new, label in of_jobs(Step(before, op, *world.scope.step(before, op))):
                edges.setdefault((old or NOWHERE, new), set()).add(label)
    lines = [f"    {old} --> {new}: {', '.join(sorted(labels))}" for (old, new), labels in sorted(edges.items())]
    return "\n".join(["stateDiagram-v2", *lines])


# --- the lease queue --------------------------------------------------------------------------------------------------


def of_jobs(step: Step[State, contract.Op, Reply]) -> Iterator[Edge]:
    """Each job that the transition changes; a crash shows nothing that the whole operation does not."""
    if step.after is step.before:
        return
    for old, new in _changes(step.before, step.after):
        if label := _label(step.op, new):
            yield old.status if old else "", new.status, label


def _changes(before: State, after: State) -> Iterator[tuple[Job | None, Job]]:
    for number, new in enumerate(after.jobs):
        old = before.jobs[number] if number < len(before.jobs) else None
        if old != new:
            yield old, new


def _label(op: contract.Op, new: Job) -> str:
    """The operation, and for a dead job its reason."""
    match op:
        case Finish():
            label = f"finish {op.outcome}"
        case Claim() | Enqueue() | Redrive():
            label = type(op).__name__.lower()
        case _:
            return ""
    return f"{label} ({new.reason})" if new.status == "dead" else label


# --- the event stream -------------------------------------------------------------------------------------------------


def of_events(step: Step[events.State, events.Op, Reply]) -> Iterator[Edge]:
    """Where the event of the transition stands, before and after; a line that is no event stands nowhere."""
    event = _event(contract.plain(step.op))
    if event is None:
        return
    last = stream.last_of(step.before)
    if step.after is not step.before:
        yield "next", "counted", type(contract.plain(step.op)).__name__.lower()
        yield "ahead", "next", "the one before it is counted"
        return
    at = "counted" if event <= last else "next" if event == last + 1 else "ahead"
    match step:
        case Step(op=Crash() | Blocked()) if at == "next":
            yield at, at, "lost: a crash, a lock"
        case Step(op=Crash() | Blocked()):
            return
        case Step(reply=Raise(error)):
            yield at, at, error
        case _:
            yield at, at, "acknowledged again"


def _event(op: events.Plain) -> int | None:
    if isinstance(op, Apply):
        return op.seq
    line = stream.parse_line(op.data)
    return None if line is None else line[0]


# --- the picture ------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """How far an edge bends to its left, where its labels stand, and which end of them."""

    bend: int
    x: int
    y: int
    anchor: str = "middle"


class Picture(NamedTuple):
    """Where nodes and edges stand."""

    says: str
    width: int
    height: int
    nodes: Mapping[str, tuple[int, int]]
    edges: Mapping[tuple[str, str], Place]


PICTURES: Final = {
    WORKER.name: Picture(
        "status diagram of a job",
        880,
        412,
        {"": (22, 150), "pending": (190, 150), "leased": (520, 150), "done": (810, 150), "dead": (335, 372)},
        {
            ("", "pending"): Place(0, 80, 138),
            ("pending", "leased"): Place(60, 355, 104),
            ("leased", "pending"): Place(60, 355, 205),
            ("leased", "leased"): Place(0, 520, 76),
            ("leased", "done"): Place(0, 665, 138),
            ("leased", "dead"): Place(60, 505, 262, "start"),
            ("pending", "dead"): Place(20, 298, 262, "start"),
            ("dead", "pending"): Place(50, 196, 312, "end"),
        },
    ),
    CLIENT.name: Picture(
        "how an event stands to the cursor",
        880,
        170,
        {"ahead": (100, 128), "next": (440, 128), "counted": (780, 128)},
        {
            ("ahead", "next"): Place(0, 270, 118),
            ("next", "counted"): Place(0, 610, 103),
            ("ahead", "ahead"): Place(0, 100, 54),
            ("next", "next"): Place(0, 440, 54),
            ("counted", "counted"): Place(0, 780, 39),
        },
    ),
}


def drawn(kind: str, counts: Mapping[Edge, int]) -> dict[str, Any]:
    """The diagram with these counts, as data: a node is [name, x, y]; an edge has a place and [label, count] pairs."""
    picture = PICTURES[kind]
    labels: dict[tuple[str, str], Counter[str]] = {}
    for (old, new, label), count in counts.items():
        labels.setdefault((old, new), Counter())[label] += count
    edges = [
        {"from": old, "to": new, "labels": sorted(texts.items()), **picture.edges[old, new]._asdict()}
        for (old, new), texts in sorted(labels.items())
    ]
    nodes = [[name, *at] for name, at in picture.nodes.items()]
    return {"says": picture.says, "width": picture.width, "height": picture.height, "nodes": nodes, "edges": edges}
