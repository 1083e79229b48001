"""``python -m model``: explore a finite world and say what holds in it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from model.diagram import diagram
from model.explorer import Broken, World, explore
from model.scopes import SCOPES
from model.worlds import WORLDS, Family, always, listed

QUIET_S = 2.0


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 all properties hold and every `sometimes` was seen, 1 not so, 2 no such thing, 130 interrupted."""
    options = _parser().parse_args(arguments)
    if problem := _problem(options):
        sys.stderr.write(f"python -m model: {problem}\n")
        return 2
    try:
        if options.diagram:
            print(diagram(options.world))
            return 0
        return _explore(WORLDS[options.world], options.world, options.witness)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130
    except BrokenPipeError:  # whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Explore every state and every transition of a finite world, breadth first.",
        epilog="\n".join(
            [
                "worlds:",
                *listed(),
                "",
                "examples: python -m model two; python -m model session",
                "          python -m model one --witness 'a finish with an older token is refused'",
            ]
        ),
    )
    parser.add_argument("world", nargs="?", default="two", metavar="WORLD", help="which world (two)")
    parser.add_argument("--witness", metavar="NAME", help="print the shortest path to where this `sometimes` was seen")
    parser.add_argument("--diagram", action="store_true", help="print the queue's status diagram as Mermaid source")
    return parser


def _problem(options: argparse.Namespace) -> str:
    if options.world not in WORLDS:
        return f"no world is called {options.world!r}; there are {', '.join(WORLDS)}"
    if options.diagram and options.world not in SCOPES:
        return f"--diagram: {options.world} is no world of the queue; those are {', '.join(SCOPES)}"
    questions = [question.name for question in WORLDS[options.world].sometimes]
    if options.witness is not None and options.witness not in questions:
        return (
            f"--witness: {options.world} has no `sometimes` called {options.witness!r}; all are shown without --witness"
        )
    return ""


def _explore(family: Family, name: str, witness: str | None) -> int:
    started = time.perf_counter()
    try:
        world = explore(family.scopes[name], family.invariants, family.laws, family.sometimes, _progress(started))
    except Broken as broken:
        print(f"broken: {broken.name}")
        print(*family.show(broken.path), sep="\n")
        return 1
    seconds = time.perf_counter() - started
    if witness is not None:
        return _print_witness(family, world, witness)
    _print_world(family, world, seconds)
    return 0 if len(world.witnesses) == len(family.sometimes) else 1


def _print_witness(family: Family, world: World[Any, Any, Any], name: str) -> int:
    if name not in world.witnesses:
        print(f"never seen in world {world.scope.name}: {name}")
        return 1
    print(*family.show(world.witnesses[name]), sep="\n")
    return 0


def _print_world(family: Family, world: World[Any, Any, Any], seconds: float) -> None:
    total = world.transitions.total()
    print(f"world {world.scope.name}: {len(world.states):,} states, {total:,} transitions, {seconds:.1f} s")
    print(world.scope.about)
    print("  ".join(f"{name.lower()} {count:,}" for name, count in world.transitions.items()))
    for name, clause in always(family):
        print(f"always     {name} [{clause}]")
    for question in family.sometimes:
        path = world.witnesses.get(question.name)
        print(f"sometimes  {question.name}: {_after(len(path)) if path else 'NEVER in this world'}")


def _after(steps: int) -> str:
    return f"after {steps} step{'s' * (steps != 1)}"


def _progress(started: float) -> Callable[[World[Any, Any, Any], int, int], None]:
    """A line on stderr for a search that takes longer than a moment."""

    def report(world: World[Any, Any, Any], done: int, transitions: int) -> None:
        seconds = time.perf_counter() - started
        if seconds > QUIET_S:
            open_states = len(world.states) - done
            sys.stderr.write(f"{transitions:,} transitions, {done:,} states, {open_states:,} open, {seconds:.0f} s\n")

    return report


if __name__ == "__main__":
    sys.exit(main())
