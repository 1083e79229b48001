"""``python -m chaos``: list the experiments, carry many of them out, repeat one."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Final, NoReturn

from chaos.campaign import Plan, carry_out
from chaos.killer import ROOT
from chaos.kills import DEATHS, BadInput, chosen, kept, parse, stage
from chaos.report import Progress, as_json, text

STATUS: Final = {"valid": 0, "invalid": 1, "unknown": 2}
KILLS: Final = 1000

TEACHING: Final = """\
Kill processes that work on a lease queue, and look at what they leave: the state before their operation or the state
after it, never a part of it, and a queue that lives on.

  python -m chaos list                          every experiment: who dies where, and what must be left
  python -m chaos run                           1,000 kills of workers that use the shipped worker.py
  python -m chaos run --worker mine.py --minutes 10
  python -m chaos run after-audit --kills 50    only the experiments with this text in their names
  python -m chaos run --seed 1 --json           the same kills every time; one JSON object for programs
  python -m chaos replay 1:3:first-claim.after-claim --worker mine.py

Exit status: 0 valid, 1 invalid, 2 unknown, or a command that makes no sense. Valid means that none of these kills found
anything; the line `tried` says how many of the experiments were among them.
The judged file is imported and run, not sandboxed.
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (`python -m chaos --help` shows how)")


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 valid, 1 invalid, 2 unknown or bad input."""
    try:
        options = _parser().parse_args(arguments)
        if options.command == "list":
            return _list(json_wanted=options.json)
        return _carry_out(_plan(options), json_wanted=options.json)
    except BadInput as problem:
        sys.stderr.write(f"fencepost: {' '.join(str(problem).split())}\n")
        return 2


def _parser() -> Parser:
    parser = Parser(prog="python -m chaos", description=TEACHING, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | run | replay")
    list_ = commands.add_parser("list", help="print every experiment, its hook, and whether the change is kept or lost")
    run = commands.add_parser(
        "run",
        help="carry out every experiment, then again among other jobs, at other times, under other names, and so on",
    )
    run.add_argument("selection", nargs="?", default="", help="only experiments with this text in their names")
    run.add_argument(
        "--seed", type=_natural, metavar="N", help="fixes every random choice; drawn and printed otherwise"
    )
    end = run.add_mutually_exclusive_group()
    end.add_argument("--kills", type=_positive, metavar="N", help=f"how many ({KILLS:,})")
    end.add_argument("--minutes", type=_minutes, metavar="M", help="for how long, instead")
    run.add_argument("--jobs", type=_positive, metavar="N", help="how many processes kill (one a processor)")
    again = commands.add_parser("replay", help="carry out just one kill, by the token that `run` printed")
    again.add_argument("token", metavar="TOKEN", help="SEED:ROUND:EXPERIMENT")
    for command in (run, again):
        command.add_argument(
            "--worker", metavar="PATH", type=Path, default=ROOT / "worker.py", help="the file to judge"
        )
    for command in (list_, run, again):
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


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


def _plan(options: argparse.Namespace) -> Plan:
    worker = options.worker.resolve()
    if options.command == "replay":
        kill = parse(options.token)
        return Plan(worker, kill.seed, [kill.name], 1, kill.turn, 1)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    kills = KILLS if options.kills is None and options.minutes is None else options.kills
    jobs = min(options.jobs or os.cpu_count() or 1, kills or sys.maxsize)
    return Plan(worker, seed, chosen(options.selection), jobs, 0, kills, options.minutes)


def _carry_out(plan: Plan, *, json_wanted: bool) -> int:
    wanted = f"{plan.kills:,} kills" if plan.minutes is None else f"{plan.minutes:g} minutes"
    progress = Progress(wanted)
    try:
        outcome = carry_out(plan, progress)
    finally:
        progress.end()
    _print(json.dumps(as_json(plan, outcome)) if json_wanted else "\n".join(text(plan, outcome)))
    return STATUS[outcome.verdict]


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


if __name__ == "__main__":
    sys.exit(main())
