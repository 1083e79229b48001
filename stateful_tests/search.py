"""Hypothesis' search for a failing program: drawn by a seed, or saved before, or the one that a blob stands for."""

from __future__ import annotations

import contextlib
from typing import Final
from unittest import SkipTest

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, reproduce_failure, seed, settings
from hypothesis.database import ExampleDatabase
from hypothesis.errors import DidNotReproduce, Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test

from model.counterexample import Violation
from stateful_tests.examples import blob_of
from stateful_tests.machine import Enough, Machine
from stateful_tests.options import PROFILES

VERSION: Final = hypothesis.__version__
NOTHING: Final = (DidNotReproduce, SkipTest, Unsatisfiable)
"""What Hypothesis raises where what was saved does not fail, or nothing was, or what it was goes on in no program."""
SAVED: Final = 50
"""Hypothesis tries all the smallest examples that failed, and of those on the way to them no more than this."""


def run(
    machine: type[Machine], number: int, programs: int, steps: int, database: ExampleDatabase | None = None
) -> None:
    """Run ``programs`` programs of up to ``steps`` steps, all fixed by the seed ``number``.

    The shortest failing program arrives as a Violation; where the search for it comes to nothing, because it lasts too
    long or the module does not do the same twice, the shortest of those that were seen. ``database`` keeps it.
    """
    try:
        _search(seed(number)(machine), reproducible(programs, steps, database))
    except Violation as violation:
        violation.origin = origin(violation, f"class {machine.__name__}", number)
        raise


def run_saved(machine: type[Machine], number: int, database: ExampleDatabase | None, blob: str = "") -> None:
    """Run what failed before, by the database, or just the program that ``blob`` stands for."""
    if blob:
        machine = reproduce_failure(VERSION, blob.encode())(machine)
    try:
        with contextlib.suppress(*NOTHING):
            _search(seed(number)(machine), saved(database))
    except Violation as violation:
        violation.origin = origin(violation, f"class {machine.__name__}")
        raise


def _search(machine: type[Machine], how: settings) -> None:
    try:
        run_state_machine_as_test(machine, settings=how)
    except (Exception, pytest.fail.Exception, Enough) as error:
        if machine.found and not isinstance(error, Violation):
            raise min(machine.found, key=lambda violation: len(violation.program)) from error
        if isinstance(error, Enough):
            raise error.timeout from None
        raise


def origin(violation: Violation, where: str, number: int | None = None) -> str:
    """How Hypothesis finds it again: by its seed, and by its blob."""
    blob = blob_of(violation)
    by_seed = [] if number is None else [f"--hypothesis-seed={number}"]
    by_blob = [f"@reproduce_failure({VERSION!r}, {blob.encode()!r}) on {where}"] if blob else []
    return ", or ".join([*by_seed, *by_blob])


def reproducible(programs: int, steps: int = 1, database: ExampleDatabase | None = None) -> settings:
    """Everything that would make two runs with one seed differ is off, and so is all that measures the machine.

    What fails is saved to the database, but nothing is taken from it: see ``saved``.
    """
    return settings(
        max_examples=programs,
        stateful_step_count=steps,
        database=database,
        derandomize=False,
        deadline=None,
        phases=_allowed(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def saved(database: ExampleDatabase | None) -> settings:
    """Nothing is drawn: what the database holds is tried, whatever profile it was found under."""
    steps = max(profile.steps for profile in PROFILES.values())
    return settings(reproducible(SAVED, steps, database), phases=_allowed(Phase.reuse, Phase.shrink))


def _allowed(*phases: Phase) -> tuple[Phase, ...]:
    """Those of them that the loaded profile has, too: all, unless a short program would be of no use."""
    return tuple(phase for phase in phases if phase in settings().phases)
