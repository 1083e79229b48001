"""The layer "stateful", before all else: programs that once failed, as operations, on the model and on the module."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from model.queue import Queue, Worker
from model.store import Client, Store
from stateful_tests.acts import SESSIONS_OF_CLIENT
from stateful_tests.lockstep import Lockstep
from stateful_tests.programs import SHIPPED, Malformed, Program, kept, read
from stateful_tests.unfair import play_all


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each file that judges what the test asks for; None where there is none, so that nothing is skipped."""
    if "regression" in metafunc.fixturenames:
        kind = "worker" if "worker" in metafunc.fixturenames else "client"
        files = {path.stem: path for path in kept(SHIPPED, *metafunc.config.option.regressions) if judges(path) == kind}
        metafunc.parametrize("regression", files.values() or [None], ids=files or ["none is kept"])


def judges(path: Path) -> str:
    """The kind of module that the program in the file is of; what is malformed the gate has refused before."""
    try:
        return read(path).kind
    except Malformed:
        return ""


def program_in(file: Path, did: Counter[str]) -> Program:
    did["regressions"] += 1
    return read(file)


@pytest.mark.layer("stateful", first=True)
def test_a_regression_agrees_with_the_model(
    regression: Path | None, worker: Worker, tmp_path: Path, did: Counter[str]
) -> None:
    if regression is not None:
        program = program_in(regression, did)
        with Lockstep(Queue(worker, tmp_path / "queue.db"), did, max(con for con, _ in program.steps)) as pair:
            for con, op in program.steps:
                pair.do(op, con)


@pytest.mark.layer("stateful", first=True)
def test_a_regression_of_the_stream_agrees_with_the_model(
    regression: Path | None, client: Client, tmp_path: Path, did: Counter[str]
) -> None:
    if regression is None:
        return
    program = program_in(regression, did)
    if program.of == SESSIONS_OF_CLIENT:
        play_all(client, tmp_path / "store.db", did, [session for _, session in program.steps])
        return
    with Lockstep(Store(client, tmp_path / "store.db"), did, max(con for con, _ in program.steps)) as pair:
        for con, op in program.steps:
            pair.do(op, con)
