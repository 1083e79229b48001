"""What a run of kills, or of storms, looks like: the data of the report, and the folder where the report is put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos import report, storms
from chaos.campaign import Found, Outcome, Plan
from chaos.killer import ROOT
from model.report import page
from model.runs import new_folder


def put(runs: Path, seed: int, data: Mapping[str, Any]) -> Path:
    """The report in a folder of its own; where it is."""
    path = new_folder(runs, seed) / "report.html"
    path.write_text(page(data), "utf-8")
    return _shown(path)


def _shown(path: Path) -> Path:
    """Relative where that is shorter to read: inside the project."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def of_kills(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """What ``model.report`` makes a page of."""
    failures = [
        _failure(f"the kill {found.token}", found, report.replay(plan, found.token)) for found in _first(outcome)
    ]
    tried = f"{len(outcome.names)} of {len(plan.names)} experiments"
    facts = [*_judged(plan), ("tried", tried), ("kills", f"{outcome.kills:,}"), ("seed", plan.seed)]
    observed = [[count, what] for what, count in sorted(outcome.kinds.items())]
    return _page(outcome, facts, failures, observed, report.NOT_COVERED)


def of_storms(plan: storms.Plan, outcome: storms.Outcome) -> dict[str, Any]:
    """What ``model.report`` makes a page of, with the timeline of the last storm of each kind."""
    kinds, failures = list(outcome.timelines), []
    for found in _first(outcome):
        seed, kind = found.token.split(":")
        failure = _failure(f"{kind}: the storm of seed {seed}", found, report.repeat(plan, found.token))
        failures.append({**failure, "timeline": kinds.index(kind) if kind in kinds else None})
    facts = [*_judged(plan), ("storms", f"{outcome.storms:,}"), ("seed", plan.seed)]
    seen = report.storms_observed(plan, outcome)
    observed = [[count, f"{kind}: {what}"] for kind in seen for what, count in seen[kind].items()]
    made = _page(outcome, facts, failures, observed, report.not_covered_by_storms(plan))
    shown = [{**storm, "title": f"{kind}: {storm['title']}"} for kind, storm in outcome.timelines.items()]
    return {**made, "timelines": shown}


def _judged(plan: Plan | storms.Plan) -> list[tuple[str, Path]]:
    return [(kind, _shown(path)) for kind, path in plan.modules.items()]


def _page(
    outcome: Outcome | storms.Outcome,
    facts: Sequence[Sequence[object]],
    failures: list[dict[str, Any]],
    observed: list[list[Any]],
    not_covered: Mapping[str, str],
) -> dict[str, Any]:
    stopped = [f"stopped: {outcome.stopped}"] if outcome.stopped else []
    return {
        "verdict": outcome.verdict,
        "facts": [[name, str(value)] for name, value in [*facts, ("seconds", f"{outcome.seconds:.1f}")]],
        "failures": failures,
        "unanswered": [*stopped, *(found.line for found in outcome.unanswered)],
        "observed": observed,
        "not_guaranteed": [[what, why] for what, why in not_covered.items()],
    }


def _first(outcome: Outcome | storms.Outcome) -> list[Found]:
    return [outcome.violation] if outcome.violation else []


def _failure(title: str, found: Found, again: str) -> dict[str, Any]:
    return {
        "kind": "",
        "layer": "",
        "title": title,
        "difference": found.line,
        "program": list(found.program),
        "replay": again,
        "story": None,
        "timeline": None,
    }
