"""The layer "stateful": random programs, compared with the model step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model.counterexample import Violation
from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests.examples import Examples
from stateful_tests.lockstep import Transcript
from stateful_tests.machine import QueueMachine, machine_for
from stateful_tests.options import Profile
from stateful_tests.search import run
from stateful_tests.stream_machine import StoreMachine


@pytest.mark.layer("stateful")
@pytest.mark.usefixtures("shard")
def test_random_programs_agree_with_the_model(
    worker: Worker,
    tmp_path: Path,
    did: Counter[str],
    transcript: Transcript,
    profile: Profile,
    drawn: int,
    soak: Iterator[int],
    examples: Examples,
) -> None:
    machine = machine_for(QueueMachine, partial(Queue, worker), tmp_path, did, transcript)
    for number in soak:
        run(machine, drawn + number, profile.programs, profile.steps, examples.found)


@pytest.mark.layer("stateful")
@pytest.mark.usefixtures("shard")
def test_random_programs_of_the_stream_agree_with_the_model(
    client: Client,
    tmp_path: Path,
    did: Counter[str],
    transcript: Transcript,
    profile: Profile,
    drawn: int,
    soak: Iterator[int],
    examples: Examples,
) -> None:
    machine = machine_for(StoreMachine, partial(Store, client), tmp_path, did, transcript)
    for number in soak:
        # Its states are fewer: two columns and a log.
        run(machine, drawn + number, profile.programs // 2, profile.steps, examples.found)


# --- the laws of the machines themselves ------------------------------------------------------------------------------


def programs_of(client: object, folder: Path, number: int, programs: int = 5) -> str:
    """The transcript of a few programs that are fixed by this seed."""
    transcript = Transcript()
    judged = partial(Store, cast("Client", client))
    run(machine_for(StoreMachine, judged, folder, Counter(), transcript), number, programs, steps=15)
    return str(transcript)


def test_one_seed_gives_the_same_programs(client: Client, tmp_path: Path) -> None:
    first, again, other = (programs_of(client, tmp_path, number) for number in (1, 1, 2))
    assert first == again != other


def test_one_seed_gives_the_queue_the_same_programs(worker: Worker, tmp_path: Path) -> None:
    transcripts = []
    for number in (1, 1, 2):
        transcripts.append(Transcript())
        machine = machine_for(QueueMachine, partial(Queue, worker), tmp_path, Counter(), transcripts[-1])
        run(machine, number, programs=5, steps=15)
    first, again, other = map(str, transcripts)
    assert first == again != other


def test_a_fault_that_is_seen_once_is_a_violation(client: Client, tmp_path: Path) -> None:
    """Whatever the search for a shorter program then comes to."""
    calls = Counter[str]()

    def apply_event(*arguments: Any) -> object:  # noqa: ANN401
        calls["in all"] += 1
        return 1 if calls["in all"] == 3 else client.apply_event(*arguments)

    judged = SimpleNamespace(**{**vars(client), "apply_event": apply_event})
    with pytest.raises(Violation, match=r"client\.apply_event\(.*\) returns 1, must "):
        programs_of(judged, tmp_path, 1)


def test_a_search_that_lasts_too_long_keeps_what_it_found(client: Client, tmp_path: Path) -> None:
    """The time limit of a test strikes as the exception of pytest.fail, in any place."""
    wrong = Counter[str]()

    def apply_event(*arguments: Any) -> int:  # noqa: ANN401
        answer = int(client.apply_event(*arguments))
        wrong["answers"] += 1
        return answer

    def open_store(path: Path) -> object:
        if wrong["answers"] >= 3:
            pytest.fail("Timeout (>120.0s) from pytest-timeout.")
        return client.open_store(path)

    judged = SimpleNamespace(**{**vars(client), "apply_event": apply_event, "open_store": open_store})
    with pytest.raises(Violation, match=r"client\.apply_event\(.*\) returns [01], must "):
        programs_of(judged, tmp_path, 1, programs=40)
    assert wrong["answers"] >= 3


def test_a_time_limit_is_no_failure_to_be_tried_again(client: Client, tmp_path: Path) -> None:
    """Wherever it strikes, in the module or while Hypothesis draws."""
    calls = Counter[str]()

    class Struck(StoreMachine):
        def event(self, arrival: str, choice: int, delta: int) -> tuple[int, int]:  # before the module is asked
            calls["rules"] += 1
            if calls["rules"] >= 3:
                pytest.fail("Timeout (>120.0s) from pytest-timeout.")
            return super().event(arrival, choice, delta)

    machine = machine_for(Struck, partial(Store, client), tmp_path, Counter(), Transcript())
    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        run(machine, 1, programs=40, steps=15)
    assert calls["rules"] == 3
