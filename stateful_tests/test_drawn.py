"""What Hypothesis found is found again: by its seed, its blob, its database, here and on a machine that shares it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import reproduce_failure
from hypothesis.database import ExampleDatabase, InMemoryExampleDatabase

from model.counterexample import Violation
from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests import keep
from stateful_tests.examples import Examples, at, blob_of, examples, problem_with
from stateful_tests.lockstep import Transcript
from stateful_tests.machine import QueueMachine, machine_for
from stateful_tests.replay import Judged
from stateful_tests.search import VERSION, run, run_saved
from stateful_tests.stream_machine import StoreMachine
from stateful_tests.test_gate import ROOT, Run, gate
from stateful_tests.test_repro import again

SAVED = "stateful_tests/test_examples.py"
UNFAIR = "stateful_tests/test_unfair_publisher.py"
FIRST, SECOND = (f"{UNFAIR}::test_random_sessions_agree_with_the_model[{shard}]" for shard in range(2))


def wrong(client: Client) -> Client:
    """A receiver that lets one event be missing."""

    def apply_event(con: Any, seq: int, delta: int, *rest: Any) -> bool:  # noqa: ANN401
        return True if seq == 1 else client.apply_event(con, seq, delta, *rest)

    return cast("Client", SimpleNamespace(**{**vars(client), "apply_event": apply_event}))


def machine(client: Client, folder: Path, rules: type[StoreMachine] = StoreMachine) -> type[StoreMachine]:
    return machine_for(rules, partial(Store, client), folder, Counter(), Transcript())


def draw(client: Client, folder: Path, number: int, database: ExampleDatabase | None = None) -> Violation:
    with pytest.raises(Violation) as failed:
        run(machine(client, folder), number, 40, 20, database)
    return failed.value


# --- in one process ---------------------------------------------------------------------------------------------------


def test_a_blob_repeats_its_program_on_the_decorated_machine(client: Client, tmp_path: Path) -> None:
    first = draw(wrong(client), tmp_path, 1)
    blob = blob_of(first)
    assert first.origin == (
        f"--hypothesis-seed=1, or @reproduce_failure({VERSION!r}, {blob.encode()!r}) on class StoreMachine"
    )
    decorated = reproduce_failure(VERSION, blob.encode())(type("StoreMachine", (StoreMachine,), {}))
    with pytest.raises(Violation) as failed:
        run(machine(wrong(client), tmp_path, decorated), 2, 1, 20)
    assert (failed.value.program, failed.value.steps) == (first.program, first.steps)
    assert first.steps[0] == "client"


def test_what_failed_once_is_tried_until_it_passes(client: Client, tmp_path: Path) -> None:
    here, theirs = InMemoryExampleDatabase(), InMemoryExampleDatabase()
    first = Examples(here, theirs)
    found = draw(wrong(client), tmp_path, 1, first.found)
    assert not here.data
    first.publish()
    assert here.data == theirs.data != {}
    with pytest.raises(Violation) as failed:
        run_saved(machine(wrong(client), tmp_path), 2, first.saved)
    assert failed.value.program == found.program
    run_saved(machine(client, tmp_path), 2, first.saved)
    assert not any(here.data.values())
    assert any(theirs.data.values()), "what passes here may still fail elsewhere"


def test_what_failed_before_its_first_step_may_lead_nowhere_later(worker: Worker, tmp_path: Path) -> None:
    """Hypothesis goes on at random after what was saved: at an end that is none, it has tried no program at all."""

    def drawn_from(queue: Judged) -> type[QueueMachine]:
        return machine_for(QueueMachine, queue, tmp_path, Counter(), Transcript())

    def never_opens(_: Path) -> Queue:
        raise Violation("it cannot be opened", [])

    database = InMemoryExampleDatabase()
    with pytest.raises(Violation):
        run(drawn_from(never_opens), 1, 1, 1, database)
    assert any(database.data.values())
    for number in range(30):
        saved = InMemoryExampleDatabase()
        saved.data = {key: set(values) for key, values in database.data.items()}
        run_saved(drawn_from(partial(Queue, worker)), number, saved)


def test_without_a_database_nothing_is_tried(client: Client, tmp_path: Path) -> None:
    run_saved(machine(wrong(client), tmp_path), 1, Examples().saved)
    assert not list(tmp_path.iterdir())


# --- in gates ---------------------------------------------------------------------------------------------------------


def edited(folder: Path) -> Path:
    """A receiver whose ACKs are of the event before."""
    text, ack = (ROOT / "client.py").read_text(), 'return b"ACK %d\\n" % seq'
    assert text.count(ack) == 1, "the edit no longer applies"
    file = folder / "client.py"
    file.write_text(text.replace(ack, f"{ack.removesuffix('seq')}(seq - 1)"))
    return file


class Found:
    """A gate that has failed, and where it left what."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shared, self.file = folder, folder / "shared", edited(folder)
        self.run = self.gate("here", "--seed", "3", FIRST, SAVED)
        (self.failure,) = self.run.verdict["failures"]

    def gate(self, folder: str, *arguments: str) -> Run:
        (self.folder / folder).mkdir(exist_ok=True)
        return gate(self.folder / folder, "--client", str(self.file), "--examples", str(self.shared), *arguments)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(tmp_path_factory.mktemp("found"))


def test_a_seed_of_hypothesis_draws_the_same_under_xdist(found: Found) -> None:
    """In any check, whatever the seed of the gate."""
    seed = re.match(r"--hypothesis-seed=\d+", found.failure["origin"])
    assert seed is not None
    run = found.gate("other", "-n1", "--seed", "4", seed[0], SECOND)
    (failure,) = run.verdict["failures"]
    assert failure["steps"] == found.failure["steps"]
    assert f"  drawn   {failure['origin']}" in run.out.splitlines()


def test_a_second_machine_finds_at_once_what_the_first_found(found: Found) -> None:
    run = found.gate("there", "--seed", "4", SAVED)
    (failure,) = run.verdict["failures"]
    assert failure["nodeid"] == f"{SAVED}::test_saved_sessions_agree_with_the_model"
    assert failure["steps"] == found.failure["steps"]
    assert sum(layer["did"].get("programs", 0) for layer in run.verdict["layers"]) <= 4
    done = again(failure["replay"], found.folder / "third")
    assert done.returncode == 1, "the token holds the example, which a third machine need not have"


def test_what_is_saved_does_not_change_what_is_drawn(found: Found) -> None:
    run = found.gate("here", "--seed", "3", FIRST, SAVED)
    assert {failure["nodeid"] for failure in run.verdict["failures"]} > {found.failure["nodeid"]}
    assert run.verdict["programs"] == found.run.verdict["programs"]


def test_what_is_kept_is_caught_on_the_next_run(found: Found, tmp_path: Path) -> None:
    assert keep.main(["--results", str(found.run.results), "--to", str(tmp_path), found.failure["token"]]) == 0
    (file,) = tmp_path.iterdir()
    run = found.gate("later", "--seed", "5", "--regressions", str(tmp_path), "stateful_tests/test_regressions.py")
    caught = {failure["nodeid"].partition("[")[2]: failure["steps"] for failure in run.verdict["failures"]}
    assert caught[f"{file.stem}]"] == found.failure["steps"]


# --- on a server ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a Redis server, which is there for as long as the test."""
    if not (program := shutil.which("redis-server")):
        pytest.skip("no redis-server on the PATH")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - found on the PATH
        assert process.stdout
        try:
            assert any("eady to accept connections" in line for line in process.stdout)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


def test_machines_share_a_redis_server(
    client: Client, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", str(tmp_path))
    assert problem_with(server) == ""
    first, second = Examples(InMemoryExampleDatabase(), at(server)), Examples(InMemoryExampleDatabase(), at(server))
    found = draw(wrong(client), tmp_path, 1, first.found)
    first.publish()
    with pytest.raises(Violation) as failed:
        run_saved(machine(wrong(client), tmp_path), 2, second.saved)
    assert failed.value.program == found.program


def test_a_place_without_examples_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert problem_with(str(file)) == f"--examples: {file}: not a folder"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = problem_with(f"redis://:secret@127.0.0.1:{port}/0")
    assert said.startswith(f"--examples: redis://127.0.0.1:{port}/0: no answer: ")
    assert "secret" not in said


def test_in_ci_only_what_is_shared_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateful_tests.examples.settings", lambda: SimpleNamespace(database=None))
    assert examples("").saved is None
    assert examples(str(tmp_path)).saved is not None
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nothing is made before something is found
