"""The layer "stateful", over the wire: random sessions with an unfair publisher, judged by the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.store import Client
from stateful_tests.examples import Examples
from stateful_tests.lockstep import Transcript
from stateful_tests.options import Profile
from stateful_tests.unfair import run

pytestmark = pytest.mark.layer("stateful")


@pytest.mark.usefixtures("shard")
def test_random_sessions_agree_with_the_model(
    client: Client,
    tmp_path: Path,
    did: Counter[str],
    transcript: Transcript,
    profile: Profile,
    drawn: int,
    soak: Iterator[int],
    examples: Examples,
) -> None:
    for number in soak:
        run(client, tmp_path, did, transcript, drawn + number, profile.programs, examples.found)
