"""The layer "syscalls": at every call with which an operation changes a file, its process dies or the disk fails."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from chaos.prepared import Case
from chaos.syscalls import QUEUE_CASES, STORE_CASES, check
from chaos.tracer import EIO_READING, FAULTS, Tracer, tracing, untraceable
from model.contract import CLIENT, WORKER, Kind
from model.queue import Queue, Worker
from model.store import Client, Store

pytestmark = pytest.mark.layer("syscalls")

Tracers = Callable[[str, Kind], Tracer]


@pytest.fixture(scope="session")
def tracer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracers]:
    """A running strace for each kind of fault and each module, started when it is first asked for."""
    if reason := untraceable():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(fault: str, kind: Kind) -> Tracer:
            module = Path(getattr(request.config.option, kind.name))
            return stack.enter_context(tracing(fault, kind, module, tmp_path_factory.mktemp("traced")))

        yield started


def every(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Each fault in each case. Where nothing is to be changed, what can fail is the reading; and a death must show that
    nothing is.
    """
    idle, others = ("SIGKILL", EIO_READING), [fault for fault in FAULTS if fault != EIO_READING]
    pairs = [(fault, case) for case in cases for fault in (idle if case.idle else others)]
    ids = [f"{fault}-{case.name}" for fault, case in pairs]
    return pytest.mark.parametrize(("fault", "case"), pairs, ids=ids)


@every(QUEUE_CASES)
def test_a_fault_at_a_system_call_leaves_all_or_nothing(
    fault: str, case: Case, tracer: Tracers, worker: Worker, faults: int, seed: int, did: Counter[str]
) -> None:
    check(case, tracer(fault, WORKER), functools.partial(Queue, worker), faults, seed, did)


@every(STORE_CASES)
def test_a_fault_at_a_system_call_leaves_an_event_whole(
    fault: str, case: Case, tracer: Tracers, client: Client, faults: int, seed: int, did: Counter[str]
) -> None:
    check(case, tracer(fault, CLIENT), functools.partial(Store, client), faults, seed, did)
