"""What a check may ask for by name: the module under test, its seed, and where to note what it did."""

from __future__ import annotations

import functools
import hashlib
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from model import queue, store
from model.queue import Worker
from model.store import Client
from stateful_tests.lockstep import Transcript
from stateful_tests.options import PROFILES, Profile
from stateful_tests.picture import folder_of
from stateful_tests.position import Position
from stateful_tests.soak import note, rounds
from stateful_tests.tokens import parse

if TYPE_CHECKING:
    from stateful_tests.examples import Examples


@pytest.fixture(scope="session")
def worker_path(request: pytest.FixtureRequest) -> Path:
    """Where the lease queue under test lies, for a process of its own."""
    return Path(request.config.option.worker)


@pytest.fixture(scope="session")
def worker(worker_path: Path) -> Worker:
    """The lease queue under test."""
    return queue.load(worker_path)


@pytest.fixture(scope="session")
def client_path(request: pytest.FixtureRequest) -> Path:
    """Where the receiver under test lies, for a process of its own."""
    return Path(request.config.option.client)


@pytest.fixture(scope="session")
def client(client_path: Path) -> Client:
    """The receiver under test."""
    return store.load(client_path)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this check: the run's seed and the check's name decide it, not the order of the checks."""
    text = f"{request.config.option.seed}:{request.node.nodeid}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


@pytest.fixture
def drawn(request: pytest.FixtureRequest, seed: int) -> int:
    """What Hypothesis draws by in this check: its seed, or whatever ``--hypothesis-seed`` says."""
    given = request.config.getoption("--hypothesis-seed")
    if given is None:
        return seed
    number = hashlib.sha256(str(given).encode()).digest()[:8]
    return int(given) if str(given).lstrip("-").isdecimal() else int.from_bytes(number)


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> Iterator[Examples]:
    """Hypothesis' example databases, which get what the check ends at."""
    from stateful_tests.examples import examples  # noqa: PLC0415 - Hypothesis takes its time, and few checks need it

    found = examples(request.config.option.examples)
    yield found
    found.publish()


@pytest.fixture
def did(request: pytest.FixtureRequest) -> Counter[str]:
    """What this check did, in figures: the table adds them up by layer."""
    counter: Counter[str] = Counter()
    request.node.user_properties.append(("did", counter))
    return counter


@pytest.fixture
def covered(request: pytest.FixtureRequest) -> dict[str, list[int]]:
    """By kind, what this check did and what there is to do in its layer: the verdict adds the first up."""
    pairs: dict[str, list[int]] = {}
    request.node.user_properties.append(("covered", pairs))
    return pairs


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Transcript:
    """Of all that this check performs: the same seed gives the same transcript."""
    transcript = Transcript()
    request.node.user_properties.append(("transcript", transcript))
    return transcript


@pytest.fixture
def artifacts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what there is to see of this check, under the names of ``picture``: the report shows it."""
    tmp_path_factory.getbasetemp()  # empties the folder below, where that is still to be done
    folder = folder_of(Path(request.config.option.base), request.node.nodeid)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What this process starts can be interrupted, even if whoever started it in the background forbids that."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Profile:
    """How much there is to do."""
    return PROFILES[request.config.option.profile]


@pytest.fixture
def faults(profile: Profile) -> int:
    """How many system calls a check faults, at most."""
    return profile.faults


@pytest.fixture
def position(request: pytest.FixtureRequest) -> Position:
    """Where in the check to go, and where it is."""
    again = request.config.option.again
    position = Position(parse(again).position if again else "")
    request.node.user_properties.append(("position", position))
    return position


@pytest.fixture
def soak(request: pytest.FixtureRequest, position: Position) -> Iterator[int]:
    """Round numbers: just 0, or under the soak profile as many as there is time for; with a token, only its own.

    Each check that goes on in rounds has the same share of the time.
    """
    option = request.config.option
    if option.again:
        numbers: Iterable[int] = [position.number() if position.wanted else 0]
    else:
        numbers = rounds(option.share * option.soak_s, Path(option.base), request.node.name)
    return _noted(numbers, position)


def _noted(numbers: Iterable[int], position: Position) -> Iterator[int]:
    for number in numbers:
        position.reached = str(number) if number else ""
        yield number


@pytest.fixture
def states_done(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Call it with the number of states done so far: the soak profile shows it now and then."""
    option = request.config.option
    if not option.soak_s:
        return lambda _: None
    return functools.partial(note, Path(option.base), "states", request.node.name)
