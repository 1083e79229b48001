"""parse_line: one way to write each event, and everything else is a BadLine."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NoReturn

import pytest

from model import stream
from model.counterexample import Violation
from model.events import BOUNDS, event_line
from model.port import one_line
from model.store import Client
from stateful_tests.stream_forms import BAD_LINES, EVERY_BYTE, EVERY_CLASS, GOOD_LINES, breakings, not_bytes

pytestmark = pytest.mark.layer("contract")

Event = tuple[int, int]


def must_parse(client: Client, data: bytes, event: Event | None) -> None:
    """The line must say this event; with None, it must be a BadLine."""
    must = f"return {event}" if event else "raise BadLine"
    try:
        result = client.parse_line(data)
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - every error is judged
        if event is None and isinstance(error, client.BadLine):
            return
        _fail(data, f"raises {one_line(error)}, must {must}")
    if result != event or not _is_event(result):
        _fail(data, f"returns {result!r}, must {must}")


def _is_event(result: object) -> bool:
    """A tuple of exact ints: 1 is not True."""
    return isinstance(result, tuple) and all(type(number) is int for number in result)


def _fail(data: object, difference: str) -> NoReturn:
    text = repr(data) if len(repr(data)) < 200 else f"{repr(data)[:120]}... ({len(repr(data))} characters)"
    call = f"client.parse_line({text})"
    raise Violation(f"{call} {difference}", ["import client", call])


# --- what is a line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", GOOD_LINES, ids=lambda line: line.decode().strip())
def test_a_line_says_its_numbers(client: Client, line: bytes) -> None:
    must_parse(client, line, GOOD_LINES[line])


def test_every_delta_within_its_bounds_is_right(client: Client, did: Counter[str]) -> None:
    low, high = BOUNDS["delta"]
    for delta in range(low - 1100, high + 1101):
        must_parse(client, event_line(3, delta), (3, delta) if low <= delta <= high else None)
        did["lines"] += 1


@pytest.mark.parametrize("delta", [0, 7, -7, 1000, -1000])
@pytest.mark.parametrize("digit", "19")
def test_a_line_ends_within_64_bytes(client: Client, digit: str, delta: int) -> None:
    room = BOUNDS["line"].high - len(event_line(1, delta)) + 1
    for digits in range(1, room + 1):
        must_parse(client, event_line(int(digit * digits), delta), (int(digit * digits), delta))
    for digits in (room + 1, room + 2, 2 * room, 1000):
        must_parse(client, event_line(int(digit * digits), delta), None)


@pytest.mark.parametrize("size", [4300, 4301, 100_000])
def test_no_line_is_too_long_to_refuse(client: Client, size: int) -> None:
    for data in (b"EVENT %b 7\n", b"EVENT 0 %b\n", b"EVENT 0 -%b\n", b"EVENT 0 7\n%b", b"%b"):
        must_parse(client, data % (b"1" * size), None)


# --- what is none -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", BAD_LINES)
def test_any_other_bytes_are_a_bad_line(client: Client, case: str) -> None:
    must_parse(client, BAD_LINES[case], None)


@pytest.mark.parametrize("line", GOOD_LINES, ids=lambda line: line.decode().strip())
def test_a_line_broken_in_one_place_is_known(client: Client, line: bytes, did: Counter[str]) -> None:
    """Bytes of every kind in every place: a digit there may still say an event, and then it must be that one."""
    for data in breakings(line, EVERY_BYTE if len(line) <= 11 else EVERY_CLASS):
        must_parse(client, data, stream.parse_line(data))
        did["lines"] += 1


def test_a_line_broken_by_chance_is_known(client: Client, seed: int, did: Counter[str]) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seeded choice
    for _ in range(1000):
        seq = chance.randrange(10 ** chance.choice((1, 2, 5, 19, 45, 54)))
        line = bytearray(event_line(seq, chance.choice((0, 1000, -1000, chance.randint(-1000, 1000)))))
        for _ in range(chance.choice((0, 1, 2, 3))):
            place = chance.randrange(len(line))
            line[place : place + chance.randrange(3)] = bytes(chance.choices(EVERY_CLASS, k=chance.randrange(3)))
            line = line or bytearray(b"\n")
        must_parse(client, bytes(line), stream.parse_line(bytes(line)))
        did["lines"] += 1


NOT_BYTES = not_bytes(b"EVENT 0 7\n")


@pytest.mark.parametrize("kind", NOT_BYTES)
def test_only_exact_bytes_are_a_line(client: Client, kind: str) -> None:
    data: Any = NOT_BYTES[kind]
    try:
        result = client.parse_line(data)
    except ValueError:
        return
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - every error is judged
        _fail(data, f"raises {one_line(error)}, which is no ValueError, must raise one")
    _fail(data, f"returns {result!r}, must raise BadLine")


def test_a_bad_line_is_a_value_error(client: Client) -> None:
    if not issubclass(client.BadLine, ValueError):
        raise Violation("client.BadLine is no ValueError, must be a subclass of it", ["import client"])
