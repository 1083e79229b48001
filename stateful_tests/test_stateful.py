"""The layer "stateful": random programs, compared with the model step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.queue import Worker
from stateful_tests.lockstep import Transcript
from stateful_tests.machine import machine_for, run
from stateful_tests.plugin import Profile

pytestmark = pytest.mark.layer("stateful")


@pytest.mark.usefixtures("shard")
def test_random_programs_agree_with_the_model(
    worker: Worker,
    tmp_path: Path,
    did: Counter[str],
    transcript: Transcript,
    profile: Profile,
    seed: int,
    soak: Iterator[int],
) -> None:
    machine = machine_for(worker, tmp_path, did, transcript)
    for number in soak:
        run(machine, seed + number, profile.programs, profile.steps)
