"""The layer "storm": many workers at one queue, killed, stopped past their leases and sent wrong answers; and receivers
of one stream, one after another, killed and sent everything again.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import stream_storm, stream_weather
from chaos.storm import Show, check
from chaos.weather import Weather
from model.queue import Queue, Worker

pytestmark = pytest.mark.layer("storm")


OWNERS = {"two owners": ("w", "x"), "one owner": ("w",)}


@pytest.fixture(params=list(OWNERS.values()), ids=list(OWNERS))
def weather(request: pytest.FixtureRequest) -> Weather:
    usual = Weather(owners=request.param)
    quick = request.config.option.profile == "quick"
    return replace(usual, jobs=20, redrives=4, kills=5, stalls=1) if quick else usual


@pytest.fixture
def show(artifacts: Path) -> Show:
    """Puts aside what the last storm looked like, for the report."""
    return lambda timeline: (artifacts / "storm.json").write_text(json.dumps(timeline))


def test_a_storm_loses_and_doubles_nothing(
    weather: Weather,
    worker: Worker,
    worker_path: Path,
    tmp_path: Path,
    seed: int,
    soak: Iterator[int],
    did: Counter[str],
    show: Show,
) -> None:
    for number in soak:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        check(weather, Queue(worker, folder / "queue.db"), worker_path, seed + number, did, show)
        shutil.rmtree(folder)


def test_a_storm_of_receivers_loses_and_doubles_nothing(
    request: pytest.FixtureRequest,
    client_path: Path,
    tmp_path: Path,
    seed: int,
    soak: Iterator[int],
    did: Counter[str],
    show: Show,
) -> None:
    usual = stream_weather.Weather()
    quick = request.config.option.profile == "quick"
    for number in soak:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        weather = replace(usual, events=500, kills=6, resends=50) if quick else usual
        stream_storm.check(weather, folder / "store.db", client_path, seed + number, did, show)
        shutil.rmtree(folder)
