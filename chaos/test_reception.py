"""The layer "delivery" of the client: receivers that are killed, and a publisher that sends again, skips or retains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos import onlooker
from chaos.exchange import Exchange
from chaos.reception import check
from chaos.sessions import DEATHS, RESENDS, RETAINED, WRONG, Experiment
from model.store import Client, Store

pytestmark = pytest.mark.layer("delivery")


@pytest.fixture(scope="module")
def exchange(client_path: Path) -> Iterator[Exchange]:
    """The processes; a check takes over those that the one before it has left alive."""
    exchange = Exchange(client_path)
    yield exchange
    exchange.dismiss()


@pytest.fixture
def store(client: Client, tmp_path: Path) -> Store:
    return Store(client, tmp_path / "store.db")


@pytest.mark.parametrize("experiment", DEATHS, ids=lambda experiment: experiment.name)
def test_a_killed_receiver_is_replaced(
    experiment: Experiment, exchange: Exchange, store: Store, did: Counter[str]
) -> None:
    check(experiment, exchange, store, did)


@pytest.mark.parametrize("experiment", RESENDS, ids=lambda experiment: experiment.name)
def test_what_comes_again_counts_once(
    experiment: Experiment, exchange: Exchange, store: Store, did: Counter[str]
) -> None:
    check(experiment, exchange, store, did)


@pytest.mark.parametrize("experiment", WRONG, ids=lambda experiment: experiment.name)
def test_a_wrong_line_ends_the_session(
    experiment: Experiment, exchange: Exchange, store: Store, did: Counter[str]
) -> None:
    check(experiment, exchange, store, did)


@pytest.mark.parametrize("experiment", RETAINED, ids=lambda experiment: experiment.name)
def test_what_is_no_longer_retained_is_not_skipped(
    experiment: Experiment, exchange: Exchange, store: Store, did: Counter[str]
) -> None:
    check(experiment, exchange, store, did)


@pytest.mark.parametrize("seq", onlooker.LOOKS.values(), ids=onlooker.LOOKS)
def test_nothing_is_acknowledged_under_a_readers_lock(
    seq: int, exchange: Exchange, store: Store, did: Counter[str]
) -> None:
    onlooker.check(seq, exchange, store, did)
