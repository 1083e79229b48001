"""What a run of kills, or of storms, says: while it goes on, at its end, and to programs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chaos import storms
from chaos.campaign import Found, Outcome, Plan
from chaos.killer import ROOT
from chaos.kills import DEATHS, kind_of, parse
from model.contract import CLIENT, WORKER

NOWHERE_COVERED: Final = {
    "power loss": "not guaranteed: what a dead process has written the kernel still has, a dead host may not",
    "disk loss, a corrupt or restored file": "not guaranteed",
    "clock skew between hosts": "not guaranteed: one time base is the caller's to provide",
    "more than one host, network file systems": "not guaranteed",
    "a full disk, a failing write or sync": "not tried here: the gate's layer syscalls does",
}

NOT_COVERED: Final = {
    **NOWHERE_COVERED,
    "several processes at once, stalls and late wake-ups": "not tried here: `python -m chaos storm` does",
    "processes and threads that the module starts": "not tried: where any are seen, the verdict is unknown",
}

INTERLEAVING: Final = (
    "the seed does not fix how processes interleave, or where one is struck down: to see it again may take some tries"
)

_BY_KIND: Final = {
    WORKER.name: {"exactly-once delivery": "not guaranteed: the receiver has to remove what is sent again"},
    CLIENT.name: {
        "exactly-once effects beyond the file": "not guaranteed: an ACK says that the receiver has committed",
        "two receivers of one file": "not guaranteed: the ACKs go to whoever asked",
    },
}


def not_covered_by_storms(plan: storms.Plan) -> dict[str, str]:
    """What storms over these modules do not show, and why."""
    return {
        **NOWHERE_COVERED,
        **{what: why for kind in plan.modules for what, why in _BY_KIND[kind].items()},
        "a kill at each hook and at each statement in turn": "not tried here: `python -m chaos run` does",
        "every way in which processes can interleave": "not tried: only those that came about",
        "processes and threads that the module starts": "not tried",
    }


FIGURES: Final = {
    WORKER.name: ("operations", "processes killed", "stalls", "stale finishes refused", "resends"),
    CLIENT.name: ("sessions", "receivers killed", "events", "resends"),
}
"""What a storm counts, by kind."""

KILLED: Final = ("processes killed", "receivers killed")

UNANSWERED: Final = 3
"""So many storms without an answer are shown; all are counted."""


# --- while it goes on -------------------------------------------------------------------------------------------------


def kills_so_far(plan: Plan, outcome: Outcome) -> str:
    """One line."""
    wanted = f"{plan.kills:,} kills" if plan.minutes is None else _span(plan.minutes)
    return f"{outcome.kills:,} of {wanted}, {_rate(outcome):.0f} kills a second, {_so_far(outcome)}"


def storms_so_far(plan: storms.Plan, outcome: storms.Outcome) -> str:
    """One line."""
    wanted = f"{(plan.storms or 0) * len(plan.modules):,}" if plan.minutes is None else _span(plan.minutes)
    killed = f"{sum(did[what] for did in outcome.did.values() for what in KILLED):,} processes killed"
    return f"{outcome.storms:,} storms of {wanted}, {outcome.seconds:.0f} s, {killed}, {_so_far(outcome)}"


def _span(minutes: float) -> str:
    return "1 minute" if minutes == 1 else f"{minutes:g} minutes"


def _so_far(outcome: Outcome | storms.Outcome) -> str:
    return outcome.verdict if outcome.violation or outcome.unanswered else "nothing found"


def _rate(outcome: Outcome) -> float:
    return outcome.kills / outcome.seconds if outcome.seconds else 0.0


# --- at its end -------------------------------------------------------------------------------------------------------


def text(plan: Plan, outcome: Outcome, shown: Path | None = None) -> Iterator[str]:
    """First what differs, if anything does; the verdict last. ``shown`` is the report to look at."""
    if outcome.violation:
        yield from _failure(outcome.violation, replay(plan, outcome.violation.token))
    for found in outcome.unanswered:
        yield from _no_answer(found, replay(plan, found.token))
    yield from _seen(sorted(outcome.kinds.items()), NOT_COVERED)
    yield from (f"note     {note}" for note in sorted(outcome.notes))
    yield f"judged   {plan.judged}"
    yield f"tried    {len(outcome.names)} of {len(plan.names)} experiments"
    jobs = f"{plan.jobs} processes" if plan.jobs > 1 else "1 process"
    yield f"kills    {outcome.kills:,} in {outcome.seconds:.1f} s, {_rate(outcome):.0f} a second, by {jobs}"
    yield f"seed     {plan.seed} (kills {outcome.digest:016x})"
    yield from _end(outcome, shown)


def storms_text(plan: storms.Plan, outcome: storms.Outcome, shown: Path | None = None) -> Iterator[str]:
    """First what differs, if anything does; the verdict last. ``shown`` is the report to look at."""
    if outcome.violation:
        yield from _failure(outcome.violation, repeat(plan, outcome.violation.token), f"          {INTERLEAVING}")
    for found in outcome.unanswered[:UNANSWERED]:
        yield from _no_answer(found, repeat(plan, found.token))
    if len(outcome.unanswered) > UNANSWERED:
        yield from (f"unanswered  {len(outcome.unanswered):,} storms in all", "")
    seen = storms_observed(plan, outcome)
    yield from _seen(
        [(f"{kind} {what}", count) for kind in seen for what, count in seen[kind].items()], not_covered_by_storms(plan)
    )
    yield f"judged   {plan.judged}"
    yield f"storms   {outcome.storms:,} in {outcome.seconds:.1f} s"
    last = plan.seed + max([1, *outcome.ended.values()]) - 1
    yield f"seed     {plan.seed} (the storms have {plan.seed} to {last})"
    yield from _end(outcome, shown)


def _failure(found: Found, again: str, *remarks: str) -> Iterator[str]:
    yield found.line
    yield from (f"    {line}" for line in found.program)
    yield f"  replay  {again}"
    yield from remarks
    yield ""


def _no_answer(found: Found, again: str) -> Iterator[str]:
    yield f"unanswered  {found.line}"
    yield f"  replay  {again}"
    yield ""


def _seen(observed: Iterable[tuple[str, int]], not_covered: Mapping[str, str]) -> Iterator[str]:
    yield "observed"
    yield from (f"  {count:>8,}  {kind}" for kind, count in observed)
    yield ""
    yield "not tried, or not guaranteed"
    yield from (f"  {what}: {why}" for what, why in not_covered.items())
    yield ""


def _end(outcome: Outcome | storms.Outcome, shown: Path | None) -> Iterator[str]:
    if shown:
        yield f"report   {shown}"
    if outcome.stopped:
        yield f"stopped  {outcome.stopped}"
    yield f"verdict: {outcome.verdict}"


def replay(plan: Plan, token: str) -> str:
    """The command that repeats one kill."""
    kind = kind_of(DEATHS[parse(token).name]).name
    return _command(kind, plan.modules[kind], "replay", token)


def repeat(plan: storms.Plan, token: str) -> str:
    """The command that repeats one storm, by its own seed and its kind."""
    seed, kind = token.split(":")
    return shlex.join(
        ["python", "-m", "chaos", "storm", "--seed", seed, "--storms", "1", f"--{kind}", str(plan.modules[kind])]
    )


def _command(kind: str, module: Path, *words: str) -> str:
    judged = () if module == ROOT / f"{kind}.py" else (f"--{kind}", str(module))
    return shlex.join(["python", "-m", "chaos", *words, *judged])


def storms_observed(plan: storms.Plan, outcome: storms.Outcome) -> dict[str, dict[str, int]]:
    """By kind: how many storms, and what happened in them."""
    return {
        kind: {"storms": outcome.ended[kind], **{what: outcome.did[kind][what] for what in FIGURES[kind]}}
        for kind in plan.modules
    }


# --- to programs ------------------------------------------------------------------------------------------------------


def as_json(plan: Plan, outcome: Outcome, shown: Path | None = None) -> dict[str, Any]:
    """One object that says all that the text says."""
    return {
        **_judged(plan.seed, outcome, shown),
        "digest": f"{outcome.digest:016x}",
        "kills": outcome.kills,
        "jobs": plan.jobs,
        "experiments": {"tried": dict(sorted(outcome.names.items())), "in_all": len(plan.names)},
        "observed": dict(sorted(outcome.kinds.items())),
        "not_covered": NOT_COVERED,
        "notes": sorted(outcome.notes),
        **_findings(outcome.violation, outcome.unanswered, lambda token: replay(plan, token)),
    }


def storms_json(plan: storms.Plan, outcome: storms.Outcome, shown: Path | None = None) -> dict[str, Any]:
    """One object that says all that the text says, and more of what had no answer."""
    return {
        **_judged(plan.seed, outcome, shown),
        "storms": outcome.storms,
        "observed": storms_observed(plan, outcome),
        "not_covered": not_covered_by_storms(plan),
        "interleaving": INTERLEAVING,
        **_findings(outcome.violation, outcome.unanswered, lambda token: repeat(plan, token)),
    }


def _judged(seed: int, outcome: Outcome | storms.Outcome, shown: Path | None) -> dict[str, Any]:
    return {
        "report": shown and str(shown),
        "verdict": outcome.verdict,
        "judged": outcome.judged,
        "seed": seed,
        "seconds": round(outcome.seconds, 3),
        "stopped": outcome.stopped,
    }


def _findings(violation: Found | None, unanswered: Sequence[Found], again: Callable[[str], str]) -> dict[str, Any]:
    return {
        "violation": violation and _found(violation, again),
        "unanswered": [_found(found, again) for found in unanswered],
    }


def _found(found: Found, again: Callable[[str], str]) -> dict[str, Any]:
    return {
        "difference": found.line,
        "program": list(found.program),
        "token": found.token,
        "replay": again(found.token),
    }
