"""Which tests are checks of the gate, what each judges, and which of them a profile makes."""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from typing import Final

import pytest

from model.contract import KINDS
from stateful_tests.options import PROFILES

SAMPLED: Final = ("contract", "schedules", "atomicity", "delivery", "storm", "syscalls")


def sample(checks: list[pytest.Item], option: argparse.Namespace) -> list[pytest.Item]:
    """All of them, or in the layers that are sampled those that the seed draws: of each test one at least, so that a
    check that is asked for alone is always made.
    """
    every = 1 if option.again else PROFILES[option.profile].every
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in checks:
        by_test[item.nodeid.partition("[")[0]].append(item)
    chosen: set[str] = set()
    for test, items in by_test.items():
        most = -(-len(items) // every) if layer_of(items[0]) in SAMPLED else len(items)
        draw = random.Random(f"{option.seed}:{test}")  # noqa: S311 - a sample, not a secret
        chosen.update(item.nodeid for item in draw.sample(items, most))
    return [item for item in checks if item.nodeid in chosen]


def layer_of(item: pytest.Item) -> str:
    """Which layer the check is of; a test that is no check is of none."""
    mark = item.get_closest_marker("layer")
    return str(mark.args[0]) if mark else ""


def comes_first(item: pytest.Item) -> bool:
    """Is it about what has failed before?"""
    mark = item.get_closest_marker("layer")
    return bool(mark and mark.kwargs.get("first"))


def is_first(item: pytest.Item) -> bool:
    """Whether nothing may run before the check, or beside it: what it shows may forbid the rest."""
    return item.get_closest_marker("first") is not None


def kind_of(item: pytest.Item) -> str:
    """What the check judges: the module that it asks for."""
    return next((name for name in KINDS if f"{name}_path" in getattr(item, "fixturenames", ())), "")
