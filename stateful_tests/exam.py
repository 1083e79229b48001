"""``python -m stateful_tests.exam``: the gate judges implementations that are known, and must find every wrong one.

Each is judged by a gate of its own, as a stranger's file would be. The shipped files are among them, and a canary: were
the first not valid, or the other not found, everything else would show nothing, and the exam is void.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from model import scratch
from model.contract import KINDS
from stateful_tests import killers
from stateful_tests.examiner import Examiner, Order
from stateful_tests.mutants import RIGHT, Mutant, Unappliable
from stateful_tests.mutants.clients import CLIENTS
from stateful_tests.mutants.workers import WORKERS
from stateful_tests.options import ROOT, positive
from stateful_tests.verdict import LAYERS

MUTANTS: Final = {"worker": WORKERS, "client": CLIENTS}
CANARY: Final = "canary"

DESCRIPTION: Final = """\
Judge wrong implementations of the lease queue and of the receiver, each a small edit of the shipped file, and right
ones that are written differently. Every wrong one must be found, by a check that says what is wrong; every right one
must be valid. The gate of a wrong one ends at its first violation, and begins with the checks that found it before
(stateful_tests/mutants/killers.json: an index, not an answer); with --full each layer has its say on each of them.
Edits that are no fault, for a reason in the table, are judged with --full, or by name.
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
    """What the gate said: the word, by layer the check that found a violation first and the seconds until then, the
    first difference, seconds of wall time. Layers that were not asked, or missed it, are not there.
    """

    candidate: Candidate
    word: str
    killers: Mapping[str, str] = field(default_factory=dict)
    seconds_to_kill: Mapping[str, float] = field(default_factory=dict)
    says: str = ""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return self.word == self.candidate.want


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 every answer was right, 1 not so, 2 the exam is void or could not be held, 130 interrupted."""
    options = _parser().parse_args(arguments)
    folder = scratch.make()
    try:
        return _hold(options, folder)
    except (Unappliable, killers.Unreadable) as problem:
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
    parser.add_argument("--full", action="store_true", help="every layer judges every one; takes hours")
    parser.add_argument(
        "--rest", action="store_true", help="only those that the record does not know every layer's answer on"
    )
    parser.add_argument(
        "--profile",
        default="quick",
        choices=("quick", "ci"),
        help="of the gates of the right ones (quick)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of every gate (1)")
    parser.add_argument(
        "--jobs", type=positive, default=2 * (os.cpu_count() or 1), metavar="N", help="gates at once (two a core)"
    )
    parser.add_argument("--record", action="store_true", help="note in killers.json which checks found what")
    parser.add_argument("--json", metavar="FILE", help="write the answers there, too")
    return parser


def _hold(options: argparse.Namespace, folder: Path) -> int:
    known = killers.read()
    candidates = [each for each in _candidates(folder) if _is_chosen(each, options, known)]
    started, given = time.monotonic(), list[Answer]()
    try:
        for answer in answers(candidates, options, folder):
            given.append(answer)
            print(f"[{len(given):{len(str(len(candidates)))}}/{len(candidates)}] {_line(answer, options)}", flush=True)
    finally:
        if options.record:
            killers.record(killers.merged(killers.read(), _recorded(given, options), _names()))
    given.sort(key=lambda answer: candidates.index(answer.candidate))
    print(*_summary(given, options, time.monotonic() - started), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps([_as_json(answer) for answer in given], indent=2) + "\n")
    return _status(given)


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


def _is_chosen(candidate: Candidate, options: argparse.Namespace, known: killers.Killers) -> bool:
    """Shipped and canary are judged in any case: without them nothing is shown."""
    if options.kind and candidate.kind != options.kind:
        return False
    if candidate.name in ("shipped", CANARY):
        return True
    if candidate.want == "valid" and candidate.clause and not (options.full or options.names):
        return False  # an edit that is no fault: its whole gate takes as long as those of fifty faults
    if options.rest and killers.is_whole(known, candidate.kind, candidate.name):
        return False
    return is_named(candidate, options)


def is_named(candidate: Candidate, options: argparse.Namespace) -> bool:
    """Is it one of those that the command line asks for?"""
    return not options.names or any(text in candidate.name for text in options.names)


def _names() -> dict[str, list[str]]:
    return {kind: [mutant.name for mutant in mutants if not mutant.equivalent] for kind, mutants in MUTANTS.items()}


# --- the gates --------------------------------------------------------------------------------------------------------


def answers(candidates: Iterable[Candidate], options: argparse.Namespace, folder: Path) -> Iterator[Answer]:
    """As they come, in an order that is drawn: those that wait for a time-out stand in a row in the catalogue. First
    those that take longest, since they are right. Each thread has examiners of its own.
    """
    drawn = list(candidates)
    random.Random(options.seed).shuffle(drawn)  # noqa: S311 - an order, not a secret
    drawn.sort(key=lambda candidate: candidate.want != "valid")
    known, desks = dict(killers.read()), list[_Desk]()
    mine = threading.local()

    def sit() -> None:
        mine.desk = _Desk(options, folder)
        desks.append(mine.desk)

    def judge(candidate: Candidate) -> Answer:
        early = killers.early(known, candidate.kind, candidate.name)
        answer: Answer = mine.desk.judge(candidate, early)
        known[candidate.kind] = {**known.get(candidate.kind, {}), candidate.name: answer.killers}
        return answer

    with ThreadPoolExecutor(options.jobs, initializer=sit) as pool:
        try:
            for future in as_completed([pool.submit(judge, candidate) for candidate in drawn]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            for desk in desks:
                desk.end()


class _Desk:
    """Judges one candidate after the other: an examiner for each kind and profile, made when it is needed."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.examiners: dict[tuple[str, str], Examiner] = {}

    def judge(self, candidate: Candidate, early: tuple[str, ...]) -> Answer:
        key = (candidate.kind, self.options.profile if candidate.want == "valid" else "ci")
        if key not in self.examiners:
            self.examiners[key] = Examiner(*key, self.options.seed, self.folder)
        started = time.monotonic()
        verdict = self.examiners[key].judge(Order(str(candidate.path), early, self.options.full))
        if verdict is None:
            self.examiners.pop(key).end()
            return Answer(candidate, "unknown", says="no verdict", seconds=time.monotonic() - started)
        return _answer(candidate, verdict, time.monotonic() - started)

    def end(self) -> None:
        for examiner in list(self.examiners.values()):  # the thread, if it still judges, takes out one that has ended
            examiner.end()


def _answer(candidate: Candidate, verdict: dict[str, Any], seconds: float) -> Answer:
    failures = verdict["failures"]
    found = {each["layer"]: each["nodeid"] for each in reversed(failures)}
    took = {layer["name"]: layer["seconds"] for layer in verdict["layers"] if layer["name"] in found}
    says = failures[0]["difference"] if failures else next(iter(verdict["unanswered"]), "")
    return Answer(candidate, verdict["verdict"], found, took, says, seconds)


# --- what is said -----------------------------------------------------------------------------------------------------


def _line(answer: Answer, options: argparse.Namespace) -> str:
    candidate = answer.candidate
    mark = "ok " if answer.right else "BAD"
    if options.full and candidate.want == "invalid":
        found = "  ".join(_cell(answer, layer) for layer in LAYERS)
    else:
        found = f"{', '.join(answer.killers) or answer.word}: {answer.says}" if answer.says else answer.word
    return f"{mark} {answer.seconds:5.1f} s  {candidate.kind}  {candidate.name:<50}  {found}"[:200].rstrip()


def _cell(answer: Answer, layer: str) -> str:
    """One of the matrix: seconds to kill, or nothing."""
    seconds = answer.seconds_to_kill.get(layer)
    return f"{layer} " + ("   -" if seconds is None else f"{seconds:4.1f}")


def _summary(given: Sequence[Answer], options: argparse.Namespace, seconds: float) -> Iterator[str]:
    yield ""
    wrong = [answer for answer in given if answer.candidate.want == "invalid"]
    yield f"found      {sum(answer.right for answer in wrong)} of {len(wrong)} wrong implementations"
    right = [answer for answer in given if answer.candidate.want == "valid"]
    yield f"valid      {sum(answer.right for answer in right)} of {len(right)} right ones"
    known = killers.read()
    moved = sum(not killers.holds(known, each.candidate.kind, each.candidate.name, each.killers) for each in wrong)
    if moved:
        yield f"moved      {moved} found by a check that the record does not name: --record makes the exam quick again"
    yield from killers.alone(killers.merged(known, _recorded(given, options), _names()))
    for answer in given:
        if not answer.right:
            yield f"not as it must be: {answer.candidate.kind}: {answer.candidate.name}: {answer.word} {answer.says}"
    yield f"{len(given)} gates in {seconds:.0f} s, {options.jobs} at once"
    yield f"exam: {('passed', 'failed', 'void')[_status(given)]}"


def _recorded(given: Iterable[Answer], options: argparse.Namespace) -> killers.Killers:
    """What the answers add to the record: with --full also which layers missed it."""
    found: dict[str, dict[str, dict[str, str | None]]] = {kind: {} for kind in KINDS}
    for answer in given:
        if answer.candidate.want == "invalid" and answer.killers:
            missed = dict.fromkeys(LAYERS) if options.full else {}
            found[answer.candidate.kind][answer.candidate.name] = {**missed, **answer.killers}
    return found


def _status(given: Sequence[Answer]) -> int:
    """Void if the baseline is not what it must be, or something was not answered; failed if an answer was wrong."""
    if any(answer.candidate.name in ("shipped", CANARY) and not answer.right for answer in given):
        return 2
    if any(answer.word == "unknown" for answer in given):
        return 2
    return 0 if all(answer.right for answer in given) else 1


def _as_json(answer: Answer) -> dict[str, Any]:
    candidate = answer.candidate
    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "clause": candidate.clause,
        "must_be": candidate.want,
        "verdict": answer.word,
        "killers": dict(answer.killers),
        "seconds_to_kill": {layer: round(seconds, 2) for layer, seconds in answer.seconds_to_kill.items()},
        "says": answer.says,
        "seconds": round(answer.seconds, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
