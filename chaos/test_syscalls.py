"""The layer "syscalls": at every call with which an operation changes a file, its process dies or the disk fails."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from chaos.faulted import Case
from chaos.syscalls import CASES, check
from chaos.tracer import FAULTS, Tracer, tracing, untraceable
from model.queue import Worker

pytestmark = pytest.mark.layer("syscalls")

Tracers = Callable[[str], Tracer]


@pytest.fixture(scope="session")
def tracer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracers]:
    """A running strace for each kind of fault, started when it is first asked for."""
    if reason := untraceable():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(fault: str) -> Tracer:
            folder = tmp_path_factory.mktemp("traced")
            return stack.enter_context(tracing(fault, request.config.option.worker, folder))

        yield started


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_a_system_call_leaves_all_or_nothing(
    fault: str, case: Case, tracer: Tracers, worker: Worker, faults: int, seed: int, did: Counter[str]
) -> None:
    check(case, tracer(fault), worker, faults, seed, did)
