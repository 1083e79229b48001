"""``python -m stateful_tests.exam``: the gate judges implementations that are known, and must find every wrong one.

Each is judged as a stranger's file would be, in a gate of its own. The shipped files come first: were they not valid,
or were the canary not found, everything else would show nothing, and the exam is void.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from model import scratch
from model.contract import KINDS
from stateful_tests.mutants import Mutant, Unappliable
from stateful_tests.mutants.clients import CLIENTS
from stateful_tests.mutants.workers import WORKERS
from stateful_tests.verdict import LAYERS

ROOT: Final = Path(__file__).resolve().parent.parent
RIGHT: Final = ROOT / "stateful_tests" / "mutants" / "right"
MUTANTS: Final = {"worker": WORKERS, "client": CLIENTS}
CANARY: Final = "canary"
PATIENCE_S: Final = 900

DESCRIPTION: Final = """\
Judge wrong implementations of the lease queue and of the receiver, each a small edit of the shipped file, and right
ones that are written differently. Every wrong one must be found, by a check that says what is wrong; every right one
must be valid. With --full each layer has its say on each of them; otherwise a gate ends at its first violation.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file to judge, and what the verdict on it must be."""

    kind: str
    name: str
    path: Path
    want: str
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate said: the word, the layers that found a violation, the first difference, seconds of wall time."""

    candidate: Candidate
    word: str
    layers: tuple[str, ...]
    says: str
    seconds: float

    @property
    def right(self) -> bool:
        return self.word == self.candidate.want


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 every answer was right, 1 not so, 2 the exam is void or could not be held, 130 interrupted."""
    options = _parser().parse_args(arguments)
    folder = scratch.make()
    try:
        return _hold(options, folder)
    except Unappliable as problem:
        sys.stderr.write(f"exam: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tox run -e exam --", description=DESCRIPTION)
    parser.add_argument("names", nargs="*", metavar="TEXT", help="only those that have one of these in their names")
    parser.add_argument("--kind", choices=list(KINDS), help="only workers, or only clients")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants of each kind, drawn by --seed")
    parser.add_argument("--full", action="store_true", help="every layer judges every one; takes an hour or more")
    parser.add_argument("--profile", default="ci", choices=("quick", "ci"), help="how much each gate does (ci)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of every gate (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="gates at once (one a core)")
    parser.add_argument("--json", metavar="FILE", help="write the answers there, too")
    return parser


def _hold(options: argparse.Namespace, folder: Path) -> int:
    candidates = _sampled([each for each in _candidates(folder) if _is_chosen(each, options)], options)
    started, answers = time.monotonic(), list[Answer]()
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for answer in pool.map(lambda candidate: _judge(candidate, options, folder), candidates):
                answers.append(answer)
                print(_line(answer), flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    print(*_summary(answers, options, time.monotonic() - started), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps([_as_json(answer) for answer in answers], indent=2) + "\n")
    return _status(answers)


# --- who is judged ----------------------------------------------------------------------------------------------------


def _candidates(folder: Path) -> Iterator[Candidate]:
    """The shipped files, the right ones that are written differently, then every mutant."""
    for kind in KINDS:
        yield Candidate(kind, "shipped", ROOT / f"{kind}.py", "valid")
        for path in sorted((RIGHT / kind).glob("*.py")):
            yield Candidate(kind, path.stem.replace("_", " "), path, "valid")
    for kind, mutants in MUTANTS.items():
        text = (ROOT / f"{kind}.py").read_text()
        for number, mutant in enumerate(mutants):
            path = folder / f"{kind}-{number}" / f"{kind}.py"
            path.parent.mkdir()
            path.write_text(mutant.apply(text))
            yield Candidate(kind, mutant.name, path, _wanted(mutant), mutant.clause)


def _wanted(mutant: Mutant) -> str:
    return "valid" if mutant.equivalent else "invalid"


def _is_chosen(candidate: Candidate, options: argparse.Namespace) -> bool:
    """Shipped and canary are judged in any case: without them nothing is shown."""
    if options.kind and candidate.kind != options.kind:
        return False
    always = candidate.name in ("shipped", CANARY)
    return always or not options.names or any(text in candidate.name for text in options.names)


def _sampled(candidates: list[Candidate], options: argparse.Namespace) -> list[Candidate]:
    """All of them, or of the mutants those that are drawn; shipped, canary and right ones stay."""
    if options.sample is None:
        return candidates
    drawn: list[Candidate] = []
    for kind in KINDS:
        mutants = [each for each in candidates if each.kind == kind and each.clause and each.name != CANARY]
        draw = random.Random(f"{options.seed}:{kind}")  # noqa: S311 - a sample, not a secret
        drawn += draw.sample(mutants, min(options.sample, len(mutants)))
    return [each for each in candidates if not each.clause or each.name == CANARY or each in drawn]


# --- one gate ---------------------------------------------------------------------------------------------------------


def _judge(candidate: Candidate, options: argparse.Namespace, folder: Path) -> Answer:
    started = time.monotonic()
    results = folder / f"results-{candidate.kind}-{candidate.name}"
    command = [
        *(sys.executable, "-m", "pytest", "--gate", f"--{candidate.kind}", str(candidate.path)),
        *("-n0", "-q", "-p", "no:cacheprovider", "--results", str(results)),
        *("--profile", options.profile, "--seed", str(options.seed)),
        *([] if options.full else ["--first"]),
    ]
    try:
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)  # noqa: S603 - ours
        verdict = json.loads((results / "latest" / "verdict.json").read_text())
    except (subprocess.TimeoutExpired, OSError, ValueError) as error:
        return Answer(candidate, "unknown", (), f"no verdict: {type(error).__name__}", time.monotonic() - started)
    finally:
        shutil.rmtree(results, ignore_errors=True)
    return _answer(candidate, verdict, time.monotonic() - started)


def _answer(candidate: Candidate, verdict: dict[str, Any], seconds: float) -> Answer:
    failures = verdict["failures"]
    layers = tuple(name for name in LAYERS if any(each["layer"] == name for each in failures))
    says = failures[0]["difference"] if failures else next(iter(verdict["unanswered"]), "")
    return Answer(candidate, verdict["verdict"], layers, says, seconds)


# --- what is said -----------------------------------------------------------------------------------------------------


def _line(answer: Answer) -> str:
    candidate = answer.candidate
    mark = "ok " if answer.right else "BAD"
    found = ", ".join(answer.layers) or answer.word
    return f"{mark} {answer.seconds:6.1f} s  {candidate.kind}  {candidate.name:<50}  {found:<12}  {answer.says[:100]}"


def _summary(answers: Sequence[Answer], options: argparse.Namespace, seconds: float) -> Iterator[str]:
    yield ""
    wrong = [answer for answer in answers if answer.candidate.want == "invalid"]
    found = [answer for answer in wrong if answer.right]
    yield f"found      {len(found)} of {len(wrong)} wrong implementations"
    right = [answer for answer in answers if answer.candidate.want == "valid"]
    yield f"valid      {sum(answer.right for answer in right)} of {len(right)} right ones"
    if options.full:
        yield from _alone(found)
    for answer in answers:
        if not answer.right:
            yield f"not as it must be: {answer.candidate.kind}: {answer.candidate.name}: {answer.word} {answer.says}"
    yield f"{len(answers)} gates in {seconds:.0f} s, {options.jobs} at once, profile {options.profile}"
    yield f"exam: {('passed', 'failed', 'void')[_status(answers)]}"


def _alone(found: Iterable[Answer]) -> Iterator[str]:
    """What each layer alone would have missed."""
    for layer in LAYERS:
        missed = [answer.candidate.name for answer in found if layer not in answer.layers]
        only = [answer.candidate.name for answer in found if answer.layers == (layer,)]
        yield f"{layer:<12} alone misses {len(missed)}; it alone finds {len(only)}{': ' * bool(only)}{', '.join(only)}"


def _status(answers: Sequence[Answer]) -> int:
    """Void if the baseline is not what it must be, or something was not answered; failed if an answer was wrong."""
    if any(answer.candidate.name in ("shipped", CANARY) and not answer.right for answer in answers):
        return 2
    if any(answer.word == "unknown" for answer in answers):
        return 2
    return 0 if all(answer.right for answer in answers) else 1


def _as_json(answer: Answer) -> dict[str, Any]:
    candidate = answer.candidate
    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "clause": candidate.clause,
        "must_be": candidate.want,
        "verdict": answer.word,
        "layers": list(answer.layers),
        "says": answer.says,
        "seconds": round(answer.seconds, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
