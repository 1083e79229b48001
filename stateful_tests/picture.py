"""What a run of the gate looks like: the verdict, and what its checks have put aside, as the data of the report."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from model.contract import CLIENT, WORKER
from model.diagram import Edge, drawn
from stateful_tests.verdict import Verdict, cells

ARTIFACTS: Final = "artifacts"
STORM, EDGES = "storm.json", "edges.json"
"""What a check puts into its folder of artifacts: a timeline as ``model.report`` has it; how often each edge of the
status diagram was replayed, as [from, to, operation, count]."""

SHOWN_OF_FAILURES: Final = ("kind", "layer", "title", "difference", "program", "replay")
MOST_STORIES: Final = 100
"""So many failures are shown step by step; the programs of the others are shown as text."""

NOT_GUARANTEED: Final[Mapping[str, Mapping[str, str]]] = {
    WORKER.name: {
        "Exactly-once delivery": "a worker that dies between its send and its finish leads to a second send",
        "Order": "each job stands alone",
        "Fencing of anything outside the queue": "a token is a claim's number in its job, nothing more",
        "Clocks": "nothing here makes two hosts agree on the time",
        "Users and rights": "a redrive trusts its caller",
    },
    CLIENT.name: {
        "Exactly-once effects beyond the file": "an ACK says that the receiver has committed, nothing more",
        "The publisher's side": "what it retains and when it sends again",
        "Two receivers on one file": "the cursor is safe, the ACKs go to whoever asked",
        "TLS, users, HTTP": "never expose it to the internet",
    },
    "": {
        "Power loss, disk loss, restored backups, network file systems": "a killed process loses no page that reached "
        "the kernel; a host that loses power may",
        "What the judged file does besides": "only replies, rows, hooks, transactions, files and lines are looked at",
        "Anything outside the explored world": "a proof for that world, and for a larger one a strong hint",
    },
}
"""By kind, and for both: as the README lists them."""


def folder_of(base: Path, nodeid: str) -> Path:
    """The folder of artifacts of this check, below that of the run's files; the same in every process."""
    return base / ARTIFACTS / hashlib.sha256(nodeid.encode()).hexdigest()[:32]


def data(
    verdict: Verdict,
    facts: Sequence[Sequence[object]],
    failures: Sequence[Mapping[str, Any]],
    base: Path | None,
    stories: Mapping[str, Any],
) -> dict[str, Any]:
    """What ``model.report`` makes a page of: ``failures`` as in ``verdict.json``, ``stories`` by check."""
    timelines = list(_storms(verdict, base))
    numbers = {nodeid: number for number, (nodeid, _) in enumerate(timelines)}
    titles = {check.nodeid: f"{check.kind}: {check.title}" for check in verdict.checks}
    layers = [layer for layer in verdict.layers if layer.checks]
    return {
        "verdict": verdict.word,
        "facts": facts,
        "failures": [
            {
                **{name: failure[name] for name in SHOWN_OF_FAILURES},
                "story": stories.get(failure["nodeid"]) if number < MOST_STORIES else None,
                "timeline": numbers.get(failure["nodeid"]),
            }
            for number, failure in enumerate(failures)
        ],
        "unanswered": verdict.unanswered,
        "not_tried": verdict.not_tried,
        "layers": list(cells(layers)),
        "coverage": list(_coverage(verdict, base)),
        "timelines": [{**storm, "title": f"{titles[nodeid]}, {storm['title']}"} for nodeid, storm in timelines],
        "observed": _observed(verdict),
        "not_guaranteed": list(_not_guaranteed(verdict)),
    }


def _not_guaranteed(verdict: Verdict) -> Iterator[list[str]]:
    """Of what was judged, and of both."""
    for kind in (*dict.fromkeys(layer.kind for layer in verdict.layers), ""):
        yield from ([what, why] for what, why in NOT_GUARANTEED[kind].items())


def _observed(verdict: Verdict) -> list[list[Any]]:
    """What each layer counted; of both modules together, if both were judged."""
    did: Counter[tuple[str, str]] = Counter()
    for layer in verdict.layers:
        covered = sum(done for done, _ in layer.covered.values())
        did.update({(layer.name, what): count for what, count in [("replayed", covered), *layer.did.items()] if count})
    return [[count, f"{layer}: {what}"] for (layer, what), count in did.items()]


def _storms(verdict: Verdict, base: Path | None) -> Iterator[tuple[str, Any]]:
    """What a storm looked like, by its check; those that failed first."""
    for check in sorted(verdict.checks, key=lambda check: check.word != "invalid"):
        if storm := _artifact(base, check.nodeid, STORM):
            yield check.nodeid, storm


def _coverage(verdict: Verdict, base: Path | None) -> Iterator[dict[str, Any]]:
    """By kind: the operations, and the status diagram with what all checks have counted."""
    for layer in verdict.layers:
        if not layer.covered:
            continue
        counts: Counter[Edge] = Counter()
        for check in verdict.checks:
            if (check.kind, check.layer) == (layer.kind, layer.name):
                for old, new, label, count in _artifact(base, check.nodeid, EDGES) or ():
                    counts[old, new, label] += count
        ops = [[name, done, total] for name, (done, total) in layer.covered.items()]
        yield {"kind": layer.kind, "ops": ops, "diagram": drawn(layer.kind, counts) if counts else None}


def _artifact(base: Path | None, nodeid: str, name: str) -> Any:  # noqa: ANN401 - as it was put aside
    """What the check has put aside under this name; None if nothing, or if it was killed while it did."""
    if base is None:
        return None
    try:
        return json.loads((folder_of(base, nodeid) / name).read_text())
    except (OSError, ValueError):
        return None
