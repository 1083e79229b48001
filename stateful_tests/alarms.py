"""``python -m stateful_tests.alarms``: right implementations are judged again and again while the machine is made hard.

Every gate must say valid. Whatever else one says is an alarm, and false: of a check, or of what it rests on.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from model.contract import KINDS
from stateful_tests.hardship import RUNS, Place, load, places
from stateful_tests.mutants import RIGHT
from stateful_tests.options import PROFILES, ROOT, positive
from stateful_tests.verdict import EXIT_STATUS

RESULTS: Final = RUNS / "alarms"

DESCRIPTION: Final = """\
Judge the shipped files and other right implementations again and again, seed by seed, while other processes load every
core and the disk. The gates take turns with the places for the queue files (memory, disk, and a disk that is slow now
and then) and with the implementations. Exit status: 0 if every gate said valid, 1 if not, 130 interrupted.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one gate said, in one word and in full, and after how many seconds."""

    name: str
    word: str
    text: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 every gate said valid, 1 not so, 130 interrupted."""
    options = _parser().parse_args(arguments)
    answers: list[Answer] = []
    try:
        with places(options.folder or (), options.slow_ms) as found, load(options.load, found):
            for seed in range(options.seed, options.seed + options.times):
                answers.append(_judge(seed, found[seed % len(found)], seed // len(found), options))
                print(f"{answers[-1].word:<8} {answers[-1].seconds:6.1f} s  {answers[-1].name}", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted")
    alarms = [answer for answer in answers if answer.word != "valid"]
    for alarm in alarms:
        print(f"\n--- alarm: {alarm.name}\n{alarm.text}")
    if answers:
        seconds = [answer.seconds for answer in answers]
        print(f"\nvalid    {len(answers) - len(alarms)} of {len(answers)}")
        print(f"seconds  {min(seconds):.0f} to {max(seconds):.0f}, {statistics.median(seconds):.0f} in the middle")
    return 130 if len(answers) < options.times else 1 if alarms else 0


def _parser() -> argparse.ArgumentParser:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="tox run -e alarms --", description=DESCRIPTION)
    parser.add_argument("--times", type=positive, default=30, metavar="N", help="how many gates (30)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the first gate; it chooses all else too (1)"
    )
    parser.add_argument("--load", type=int, default=cores, metavar="N", help=f"how many processes load it ({cores})")
    parser.add_argument(
        "--slow-ms", type=int, default=100, metavar="MS", help="what one sync in a hundred takes longer there (100)"
    )
    parser.add_argument(
        "--folder", type=_folder, nargs="+", metavar="DIR", help="only there, instead of memory and disk"
    )
    parser.add_argument("--kind", choices=list(KINDS), help="only workers, or only clients")
    parser.add_argument("--profile", default="ci", choices=sorted(PROFILES), help="how much each gate does (ci)")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path, metavar="PATH", help=f"judge this {kind} instead of the right ones")
    return parser


def _folder(given: str) -> Path:
    if not (folder := Path(given).resolve()).is_dir():
        raise argparse.ArgumentTypeError(f"{given}: no such folder")
    return folder


# --- one gate ---------------------------------------------------------------------------------------------------------


def _judge(seed: int, place: Place, turn: int, options: argparse.Namespace) -> Answer:
    """One gate, which judges one implementation of each kind: of each, one after the other as ``turn`` grows."""
    kinds = [options.kind] if options.kind else [kind for kind in KINDS if getattr(options, kind)] or list(KINDS)
    files = [_implementations(kind, options)[turn % len(_implementations(kind, options))] for kind in kinds]
    command = [
        *(sys.executable, "-m", "pytest", "--gate", "-q", "-p", "no:cacheprovider", "--results", str(RESULTS)),
        *(f"--{kind}={file}" for kind, file in zip(kinds, files, strict=True)),
        *("--profile", options.profile, "--seed", str(seed), "--basetemp", str(place.folder / "gate")),
    ]
    started = time.monotonic()
    gate = subprocess.Popen(  # noqa: S603 - our own gate
        command,
        cwd=ROOT,
        env={**os.environ, **place.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = gate.communicate()
    except BaseException:
        gate.send_signal(signal.SIGINT)
        gate.communicate()
        raise
    word = next((word for word, status in EXIT_STATUS.items() if status == gate.returncode), "unknown")
    names = ", ".join(f"{kind} {file.stem.replace('_', ' ')}" for kind, file in zip(kinds, files, strict=True))
    return Answer(f"seed {seed}, {place.name}: {names}", word, text, time.monotonic() - started)


def _implementations(kind: str, options: argparse.Namespace) -> list[Path]:
    given: Path | None = getattr(options, kind)
    return [given.resolve()] if given else [ROOT / f"{kind}.py", *sorted((RIGHT / kind).glob("*.py"))]


if __name__ == "__main__":
    sys.exit(main())
