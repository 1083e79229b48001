"""What a run of kills says: while it goes on, at its end, and to programs."""

from __future__ import annotations

import hashlib
import shlex
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from chaos.campaign import Found, Outcome, Plan
from chaos.killer import ROOT

TERMINAL_S: Final = 1.0
PLAIN_S: Final = 10.0

NOT_COVERED: Final = {
    "power loss": "not guaranteed: what a dead process has written the kernel still has, a dead host may not",
    "disk loss, a corrupt or restored file": "not guaranteed",
    "clock skew between hosts": "not guaranteed: one time base is the caller's to provide",
    "more than one host, network file systems": "not guaranteed",
    "a full disk, a failing write or sync": "not tried here: the gate's layer syscalls does",
    "several processes at once, stalls and late wake-ups": "not tried here: the gate's layer storm does",
    "processes and threads that the module starts": "not tried: where any are seen, the verdict is unknown",
}


class Progress:
    """Call it often: it writes a line to stderr every second on a terminal, every ten seconds elsewhere."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.terminal = sys.stderr.isatty()
        self.next = time.monotonic() + self._pause

    @property
    def _pause(self) -> float:
        return TERMINAL_S if self.terminal else PLAIN_S

    def __call__(self, outcome: Outcome) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self._pause
            so_far = outcome.verdict if outcome.violations or outcome.unanswered else "nothing found"
            line = f"{outcome.kills:,} of {self.wanted}, {_rate(outcome):.0f} kills a second, {so_far}"
            sys.stderr.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _rate(outcome: Outcome) -> float:
    return outcome.kills / outcome.seconds if outcome.seconds else 0.0


def text(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """First what differs, if anything does; the verdict last."""
    if outcome.violation:
        yield from _failure(plan, outcome.violation)
    for found in outcome.unanswered:
        yield f"unanswered  {found.line}"
        yield f"  replay  {replay(plan, found.token)}"
        yield ""
    yield "observed"
    for kind, count in sorted(outcome.kinds.items()):
        yield f"  {count:>8,}  {kind}"
    yield ""
    yield "not tried, or not guaranteed"
    yield from (f"  {what}: {why}" for what, why in NOT_COVERED.items())
    yield ""
    yield from (f"note     {note}" for note in sorted(outcome.notes))
    yield f"judged   {plan.worker}"
    yield f"tried    {len(outcome.names)} of {len(plan.names)} experiments"
    jobs = f"{plan.jobs} processes" if plan.jobs > 1 else "1 process"
    yield f"kills    {outcome.kills:,} in {outcome.seconds:.1f} s, {_rate(outcome):.0f} a second, by {jobs}"
    yield f"seed     {plan.seed} (kills {outcome.digest:016x})"
    if outcome.stopped:
        yield f"stopped  {outcome.stopped}"
    yield f"verdict: {outcome.verdict}"


def _failure(plan: Plan, found: Found) -> Iterator[str]:
    yield found.line
    yield from (f"    {line}" for line in found.program)
    yield f"  replay  {replay(plan, found.token)}"
    yield ""


def replay(plan: Plan, token: str) -> str:
    """The command that repeats one kill."""
    words = ["python", "-m", "chaos", "replay", token]
    shipped = plan.worker == ROOT / "worker.py"
    return shlex.join(words if shipped else [*words, "--worker", str(plan.worker)])


def as_json(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """One object that says all that the text says."""
    return {
        "verdict": outcome.verdict,
        "worker": str(plan.worker),
        "sha256": hashlib.sha256(plan.worker.read_bytes()).hexdigest() if plan.worker.is_file() else "",
        "seed": plan.seed,
        "digest": f"{outcome.digest:016x}",
        "kills": outcome.kills,
        "seconds": round(outcome.seconds, 3),
        "jobs": plan.jobs,
        "experiments": {"tried": dict(sorted(outcome.names.items())), "in_all": len(plan.names)},
        "observed": dict(sorted(outcome.kinds.items())),
        "not_covered": NOT_COVERED,
        "violation": outcome.violation and _found(plan, outcome.violation),
        "unanswered": [_found(plan, found) for found in outcome.unanswered],
        "notes": sorted(outcome.notes),
        "stopped": outcome.stopped,
    }


def _found(plan: Plan, found: Found) -> dict[str, Any]:
    return {
        "difference": found.line,
        "program": list(found.program),
        "token": found.token,
        "replay": replay(plan, found.token),
    }
