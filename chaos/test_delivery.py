"""The layer "delivery": couriers and a receiver, each a process of its own, and three witnesses that must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.crew import Crew
from chaos.deliveries import ANSWERS, DEATHS, DELAYS, Delivery
from chaos.handover import check
from chaos.race import check_claims, check_sharing
from model.queue import Queue, Worker

pytestmark = pytest.mark.layer("delivery")

OWNERS = {"different owners": ("w", "x"), "one owner": ("w", "w")}


@pytest.fixture(scope="module")
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    """The processes; a check takes over those that the one before it has left idle."""
    crew = Crew(Path(request.config.option.worker))
    yield crew
    crew.dismiss()


@pytest.fixture
def queue(worker: Worker, tmp_path: Path) -> Queue:
    return Queue(worker, tmp_path / "queue.db")


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
def test_two_processes_never_hold_one_job(owners: tuple[str, str], crew: Crew, queue: Queue, did: Counter[str]) -> None:
    check_claims(crew, queue, owners, did)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
def test_two_processes_share_one_queue(owners: tuple[str, str], crew: Crew, queue: Queue, did: Counter[str]) -> None:
    check_sharing(crew, queue, owners, did)


@pytest.mark.parametrize("delivery", DEATHS, ids=lambda delivery: delivery.name)
def test_a_killed_courier_is_replaced(delivery: Delivery, crew: Crew, queue: Queue, did: Counter[str]) -> None:
    check(delivery, crew, queue, did)


@pytest.mark.parametrize("delivery", DELAYS, ids=lambda delivery: delivery.name)
def test_a_late_courier_overwrites_nothing(delivery: Delivery, crew: Crew, queue: Queue, did: Counter[str]) -> None:
    check(delivery, crew, queue, did)


@pytest.mark.parametrize("delivery", ANSWERS, ids=lambda delivery: delivery.name)
def test_what_comes_back_decides(delivery: Delivery, crew: Crew, queue: Queue, did: Counter[str]) -> None:
    check(delivery, crew, queue, did)
