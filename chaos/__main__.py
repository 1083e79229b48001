"""``python -m chaos``: list the experiments, carry many of them out, repeat one; or let storms come."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from chaos import picture, report, storms
from chaos.campaign import INTERRUPTED, Plan, carry_out, processors
from chaos.killer import ROOT
from chaos.kills import DEATHS, BadInput, chosen, kept, kind_of, parse, stage
from chaos.progress import Progress
from model.contract import KINDS

STATUS: Final = {"valid": 0, "invalid": 1, "unknown": 2}
KILLS: Final = 1000
MINUTES: Final = 1.0

TEACHING: Final = """\
Kill processes that work on a lease queue or receive an event stream, and look at what they leave: the state before
their operation or the state after it, never a part of it, and a file that lives on.

  python -m chaos list                          every experiment: who dies where, and what must be left
  python -m chaos run                           1,000 kills of what uses the shipped worker.py and client.py
  python -m chaos run --worker mine.py --minutes 10      (--client PATH: a receiver; both: both)
  python -m chaos run after-audit --kills 50    only the experiments with this text in their names
  python -m chaos run --seed 1 --json           the same kills every time; one JSON object for programs
  python -m chaos replay 1:3:first-claim.after-claim --worker mine.py
  python -m chaos storm                         a minute of storms: many workers at one queue, killed and woken up late;
                                                receivers of one stream, killed one after another

`run` and `storm` leave a report to look at, runs/latest/report.html, and print where it is.

Exit status: 0 valid, 1 invalid, 2 unknown, or a command that makes no sense; 130 interrupted. Valid
means that none of these kills, or storms, found anything; the line `tried` says how many of the experiments were among
them. The judged file is imported and run, not sandboxed.
"""

STORM: Final = """\
Storm after storm, up to the first violation.

Of workers: four of them and an operator at one queue, killed, stopped past their leases and sent wrong answers, until
every job is done or dead. Then nothing may be lost, left open or done with an old token, and the history of all
operations must have an order that the contract allows.

Of receivers: one after another at one store, killed in their hooks or wherever they are, sent thousands of events in
pieces, sent them again, sent lines that are wrong. What is acknowledged must be committed by then, and at the end the
ledger is the publisher's log.

  python -m chaos storm                         both by turns, over the shipped files, for one minute
  python -m chaos storm --minutes 60 --worker mine.py    of workers only
  python -m chaos storm --client mine.py        of receivers only
  python -m chaos storm --storms 20 --seed 1    the seeds 1 to 20
  python -m chaos storm --seed 7 --storms 1     one of them again

A seed fixes what each process is to do and to suffer, not how the processes interleave, nor where exactly one is struck
down from outside: to see a violation again may take several tries. The storm that is under way when the time is over is
finished.
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (`python -m chaos --help` shows how)")


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 valid, 1 invalid, 2 unknown or bad input, 130 interrupted."""
    try:
        options = _parser().parse_args(arguments)
        if options.command == "list":
            return _list(json_wanted=options.json)
        if options.command == "storm":
            return _let_storms_come(_storms(options), options.results, json_wanted=options.json)
        runs = options.results if options.command == "run" else None
        return _carry_out(_plan(options), runs, json_wanted=options.json)
    except BadInput as problem:
        sys.stderr.write(f"fencepost: {' '.join(str(problem).split())}\n")
        return 2


def _parser() -> Parser:
    parser = Parser(prog="python -m chaos", description=TEACHING, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | run | replay | storm")
    list_ = commands.add_parser("list", help="print every experiment, its hook, and whether the change is kept or lost")
    run = commands.add_parser(
        "run",
        help="carry out every experiment, then again among other jobs, at other times, under other names, and so on",
    )
    run.add_argument("selection", nargs="?", default="", help="only experiments with this text in their names")
    _end(run, "--kills", f"how many ({KILLS:,})", "for how long, instead")
    run.add_argument("--jobs", type=_positive, metavar="N", help="how many processes kill (one a processor)")
    again = commands.add_parser("replay", help="carry out just one kill, by the token that `run` printed")
    again.add_argument("token", metavar="TOKEN", help="SEED:ROUND:EXPERIMENT")
    storm = commands.add_parser(
        "storm",
        help="let storms come: many workers at one queue, receivers of one stream, killed by seed",
        description=STORM,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _end(
        storm,
        "--storms",
        "how many of each kind, instead of for some time",
        f"for how long ({MINUTES:g})",
    )
    for command in (run, storm):
        command.add_argument(
            "--results", metavar="DIR", type=Path, default=ROOT / "runs", help="where the run gets its folder (runs)"
        )
        command.add_argument(
            "--seed", type=_natural, metavar="N", help="fixes every random choice; drawn and printed otherwise"
        )
    for command in (run, again, storm):
        for name in KINDS:
            command.add_argument(f"--{name}", metavar="PATH", type=Path, help=f"the {name} to judge")
    for command in (list_, run, again, storm):
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def _end(command: argparse.ArgumentParser, count: str, many: str, long: str) -> None:
    """When it is over: after so many, or after so long."""
    end = command.add_mutually_exclusive_group()
    end.add_argument(count, type=_positive, metavar="N", help=many)
    end.add_argument("--minutes", type=_minutes, metavar="M", help=long)


def _natural(given: str) -> int:
    if given.isascii() and given.isdigit() and len(given) <= 20:
        return int(given)
    raise argparse.ArgumentTypeError(f"{given!r} is not a whole number from 0 on")


def _positive(given: str) -> int:
    if number := _natural(given):
        return number
    raise argparse.ArgumentTypeError("0 is too few")


def _minutes(given: str) -> float:
    try:
        minutes = float(given)
    except ValueError:
        minutes = 0.0
    if 0 < minutes < float("inf"):
        return minutes
    raise argparse.ArgumentTypeError(f"{given!r} is not a number of minutes above 0")


def _given(options: argparse.Namespace) -> dict[str, Path]:
    return {name: getattr(options, name).resolve() for name in KINDS if getattr(options, name) is not None}


def _plan(options: argparse.Namespace) -> Plan:
    given = _given(options)
    if options.command == "replay":
        kill = parse(options.token)
        return Plan(_modules(given, [kill.name]), kill.seed, [kill.name], 1, kill.turn, 1)
    kills = KILLS if options.kills is None and options.minutes is None else options.kills
    jobs = min(options.jobs or len(processors()), kills or sys.maxsize)
    names = chosen(options.selection, list(given or KINDS))
    return Plan(_modules(given, names), _seed(options), names, jobs, 0, kills, options.minutes)


def _modules(given: Mapping[str, Path], names: Sequence[str]) -> dict[str, Path]:
    """The module of each kind that the experiments kill, as given or as shipped; BadInput if they do not kill one."""
    kinds = {kind_of(DEATHS[name]).name for name in names}
    for name in given:
        if name not in kinds:
            raise BadInput(f"--{name}: no {name} is killed in what is to be done")
    return {name: given.get(name, ROOT / f"{name}.py") for name in KINDS if name in kinds}


def _storms(options: argparse.Namespace) -> storms.Plan:
    modules = _given(options) or {name: ROOT / f"{name}.py" for name in KINDS}
    minutes = MINUTES if options.storms is None and options.minutes is None else options.minutes
    return storms.Plan(modules, _seed(options), options.storms, minutes)


def _seed(options: argparse.Namespace) -> int:
    return random.SystemRandom().randrange(2**32) if options.seed is None else options.seed


def _carry_out(plan: Plan, runs: Path | None, *, json_wanted: bool) -> int:
    with Progress(partial(report.kills_so_far, plan)) as progress:
        outcome = carry_out(plan, progress)
    shown = _put(runs, plan.seed, picture.of_kills(plan, outcome)) if runs else None
    said = report.as_json(plan, outcome, shown) if json_wanted else report.text(plan, outcome, shown)
    _print(json.dumps(said) if isinstance(said, dict) else "\n".join(said))
    return _status(outcome.verdict, outcome.stopped)


def _put(runs: Path, seed: int, data: dict[str, Any]) -> Path:
    try:
        return picture.put(runs.resolve(), seed, data)
    except OSError as error:
        raise BadInput(f"--results: {runs}: {error.strerror}") from error


def _status(verdict: str, stopped: str) -> int:
    return 130 if stopped == INTERRUPTED else STATUS[verdict]


def _let_storms_come(plan: storms.Plan, runs: Path, *, json_wanted: bool) -> int:
    with Progress(partial(report.storms_so_far, plan)) as progress:
        outcome = storms.carry_out(plan, progress)
    shown = _put(runs, plan.seed, picture.of_storms(plan, outcome))
    said = report.storms_json(plan, outcome, shown) if json_wanted else report.storms_text(plan, outcome, shown)
    _print(json.dumps(said) if isinstance(said, dict) else "\n".join(said))
    return _status(outcome.verdict, outcome.stopped)


def _list(*, json_wanted: bool) -> int:
    rows = [(name, stage(death), "kept" if kept(death) else "lost") for name, death in DEATHS.items()]
    if json_wanted:
        _print(json.dumps([{"name": name, "hook": hook, "change": change} for name, hook, change in rows]))
        return 0
    width = max(len(name) for name in DEATHS)
    _print("\n".join(f"{name:{width}}  {hook:20}  {change}" for name, hook, change in rows))
    return 0


def _print(words: str) -> None:
    """To whoever is still there to read it."""
    try:
        print(words, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded() -> int:
    """The same; an error of our own says nothing about a module, and Python's status for it would: 1 is invalid."""
    try:
        return main()
    except Exception:  # noqa: BLE001 - whatever it is
        traceback.print_exc()
        return STATUS["unknown"]


if __name__ == "__main__":
    sys.exit(guarded())
