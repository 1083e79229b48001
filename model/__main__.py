"""``python -m model``: explore a scope of the lease queue and say what holds in it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from model.contract import Op, Reply, State
from model.counterexample import Line, program
from model.diagram import diagram
from model.explorer import Broken, Step, World, explore
from model.invariants import INVARIANTS, LAWS, SOMETIMES
from model.scopes import SCOPES

QUIET_SECONDS = 2.0


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 all properties hold and every `sometimes` was seen, 1 not so, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        if options.diagram:
            print(diagram(options.scope))
            return 0
        return _explore(options.scope, options.witness)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130
    except BrokenPipeError:  # whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model",
        description="Explore every state and every transition of a finite world of the lease queue, breadth first.",
        epilog="examples: python -m model two; python -m model one --witness 'a finish with an older token is refused'",
    )
    parser.add_argument("scope", nargs="?", choices=sorted(SCOPES), default="two", help="which world (two)")
    parser.add_argument(
        "--witness",
        metavar="NAME",
        choices=[question.name for question in SOMETIMES],
        help="print the shortest program after which this `sometimes` was seen",
    )
    parser.add_argument("--diagram", action="store_true", help="print the status diagram as Mermaid source")
    return parser


def _explore(scope: str, witness: str | None) -> int:
    started = time.perf_counter()
    try:
        world = explore(SCOPES[scope], INVARIANTS, LAWS, SOMETIMES, _progress(started))
    except Broken as broken:
        print(f"broken: {broken.name}")
        print(*as_program(broken.path), sep="\n")
        return 1
    seconds = time.perf_counter() - started
    if witness is not None:
        return _print_witness(world, witness)
    _print_world(world, seconds)
    return 0 if len(world.witnesses) == len(SOMETIMES) else 1


def _print_witness(world: World[State, Op, Reply], name: str) -> int:
    if name not in world.witnesses:
        print(f"never seen in scope {world.scope.name}: {name}")
        return 1
    print(*as_program(world.witnesses[name]), sep="\n")
    return 0


def _print_world(world: World[State, Op, Reply], seconds: float) -> None:
    total = world.transitions.total()
    print(f"scope {world.scope.name}: {len(world.states):,} states, {total:,} transitions, {seconds:.1f} s")
    print("  ".join(f"{name.lower()} {count:,}" for name, count in world.transitions.items()))
    for law in (*INVARIANTS, *LAWS):
        print(f"always     {law.name} [{law.clause}]")
    for question in SOMETIMES:
        path = world.witnesses.get(question.name)
        print(f"sometimes  {question.name}: {f'after {len(path)} steps' if path else 'NEVER in this scope'}")


def as_program(path: list[Step[State, Op, Reply]]) -> list[str]:
    """A path as source to paste, with what the model answers."""
    return program([Line(step.op, 1, step.reply) for step in path])


def _progress(started: float) -> Callable[[World[Any, Any, Any], int, int], None]:
    """A line on stderr for a search that takes longer than a moment."""

    def report(world: World[Any, Any, Any], done: int, transitions: int) -> None:
        seconds = time.perf_counter() - started
        if seconds > QUIET_SECONDS:
            open_states = len(world.states) - done
            sys.stderr.write(f"{transitions:,} transitions, {done:,} states, {open_states:,} open, {seconds:.0f} s\n")

    return report


if __name__ == "__main__":
    sys.exit(main())
