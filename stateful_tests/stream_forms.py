"""Lines, numbers and logs of the wrong form, derived from the bounds of the stream's contract."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Final

from model.events import BOUNDS, event_line
from stateful_tests.forms import not_exactly

GOOD_LINES: Final = {
    event_line(seq, delta): (seq, delta)
    for seq, delta in (
        *((0, 0), (0, 7), (1, -1), (9, 1000), (10, -1000), (42, 10), (101, -10), (999, 999)),
        *((1_000_000, 100), (2**63, -100), (2**64 - 1, 5), (10**24, -999)),
    )
}
"""Lines and what they say; each number has its digits in more than one place, and a 0 at an end somewhere."""


class Raw(bytes):
    """Bytes, but not exactly."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Raw({bytes(self)!r})"


class Buffered:
    """What can stand for bytes wherever Python asks for some."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __bytes__(self) -> bytes:
        return self.value

    def __repr__(self) -> str:
        return f"Buffered({self.value!r})"


def not_bytes(line: bytes) -> dict[str, object]:
    """What is not exactly bytes, though most of it would pass for this line somewhere."""
    return {
        "a subclass of bytes": Raw(line),
        "a bytearray": bytearray(line),
        "a memoryview": memoryview(line),
        "an array": array.array("B", line),
        "an object with __bytes__": Buffered(line),
        "a text": line.decode(),
        "an empty text": "",
        "None": None,
        "True": True,
        "False": False,
        "0": 0,
        "7": 7,
        "1.5": 1.5,
        "a list of the line": [line],
        "a list of its bytes": list(line),
        "a tuple": (line,),
        "a set": {line},
        "a dict": {},
    }


BAD_LINES: Final = {
    "nothing": b"",
    "a bare LF": b"\n",
    "no LF": b"EVENT 0 7",
    "CR for LF": b"EVENT 0 7\r",
    "CRLF": b"EVENT 0 7\r\n",
    "LFCR": b"EVENT 0 7\n\r",
    "two LFs": b"EVENT 0 7\n\n",
    "an LF in front": b"\nEVENT 0 7\n",
    "an LF for a space": b"EVENT\n0 7\n",
    "two lines": b"EVENT 0 7\nEVENT 1 7\n",
    "the start of a second line": b"EVENT 0 7\nE",
    "a NUL behind the LF": b"EVENT 0 7\n\x00",
    "a NUL before the LF": b"EVENT 0 7\x00\n",
    "a seq of 00": b"EVENT 00 7\n",
    "a 0 before seq": b"EVENT 01 7\n",
    "a delta of 00": b"EVENT 0 00\n",
    "a 0 before delta": b"EVENT 0 07\n",
    "a 0 behind the minus": b"EVENT 0 -07\n",
    "a + before seq": b"EVENT +1 7\n",
    "a + before delta": b"EVENT 0 +7\n",
    "a seq of -0": b"EVENT -0 7\n",
    "a delta of -0": b"EVENT 0 -0\n",
    "a delta of -00": b"EVENT 0 -00\n",
    "a delta of +0": b"EVENT 0 +0\n",
    "a seq of -1": b"EVENT -1 7\n",
    "two minuses": b"EVENT 0 --7\n",
    "a minus alone": b"EVENT 0 -\n",
    "a minus apart": b"EVENT 0 - 7\n",
    "a minus behind": b"EVENT 0 7-\n",
    "no seq": b"EVENT  7\n",
    "no delta": b"EVENT 0\n",
    "an empty delta": b"EVENT 0 \n",
    "no word": b"0 7\n",
    "no word but its space": b" 0 7\n",
    "the word alone": b"EVENT\n",
    "a third number": b"EVENT 0 7 1\n",
    "a space in front": b" EVENT 0 7\n",
    "two spaces before seq": b"EVENT  0 7\n",
    "two spaces before delta": b"EVENT 0  7\n",
    "a space at the end": b"EVENT 0 7 \n",
    "no space before seq": b"EVENT0 7\n",
    "a tab before seq": b"EVENT\t0 7\n",
    "a tab before delta": b"EVENT 0\t7\n",
    "a tab at the end": b"EVENT 0 7\t\n",
    "a vertical tab": b"EVENT 0\x0b7\n",
    "a form feed": b"EVENT 0\x0c7\n",
    "a form feed at the end": b"EVENT 0 7\x0c\n",
    "a file separator": b"EVENT 0\x1c7\n",
    "a no-break space": "EVENT 0\u00a07\n".encode(),
    "a no-break space of one byte": b"EVENT 0\xa07\n",
    "a line separator": "EVENT 0 7\u2028".encode(),
    "a next line": b"EVENT 0 7\x85",
    "an underscore in seq": b"EVENT 1_0 7\n",
    "an underscore in delta": b"EVENT 0 1_0\n",
    "lower case": b"event 0 7\n",
    "a capital": b"Event 0 7\n",
    "another word": b"ACK 0 7\n",
    "a longer word": b"EVENTS 0 7\n",
    "a byte order mark": b"\xef\xbb\xbfEVENT 0 7\n",
    "UTF-16": "EVENT 0 7\n".encode("utf-16-le"),
    "an Arabic seq": "EVENT \u0661 7\n".encode(),
    "an Arabic delta": "EVENT 0 \u0667\n".encode(),
    "an Arabic digit in seq": "EVENT 1\u0661 7\n".encode(),
    "an Arabic digit in delta": "EVENT 0 1\u0667\n".encode(),
    "a full-width delta": "EVENT 0 \uff17\n".encode(),
    "a superscript in Latin-1": b"EVENT 0 \xb2\n",
    "a mathematical minus": "EVENT 0 \u22127\n".encode(),
    "a hexadecimal seq": b"EVENT 0x1 7\n",
    "a hexadecimal digit": b"EVENT 0 a\n",
    "a binary delta": b"EVENT 0 0b1\n",
    "an octal seq": b"EVENT 0o1 7\n",
    "an exponent": b"EVENT 1e1 7\n",
    "a decimal point": b"EVENT 0 7.0\n",
    "a decimal point in seq": b"EVENT 1.0 7\n",
    "an L": b"EVENT 0 7L\n",
    "a word for seq": b"EVENT zero 7\n",
    "not a number": b"EVENT 0 nan\n",
    "a comma": b"EVENT 0,7\n",
    "quotes": b'EVENT "0" 7\n',
    "a delta of 1001": b"EVENT 0 1001\n",
    "a delta of -1001": b"EVENT 0 -1001\n",
    "a delta of five digits": b"EVENT 0 10000\n",
    "a delta of 2**64": b"EVENT 0 18446744073709551616\n",
    "a delta of fifty digits": b"EVENT 0 " + b"1" * 50 + b"\n",
}


EVERY_BYTE: Final = bytes(range(256))
EVERY_CLASS: Final = b"0123456789+-_., eEVNTx\n\r\t\x00\x0b\x0c\x1c\x1f\x7f\x85\xa0\xb2\xb9\xd9\xef\xff"
"""A byte of every kind that some way to read a number or to split a line treats apart."""


def breakings(line: bytes, alphabet: bytes) -> Iterator[bytes]:
    """The line broken in one place: each byte dropped, doubled, replaced by each of these, and each put in anywhere.

    Some are lines all the same: ask the model.
    """
    every = [bytes([value]) for value in alphabet]
    for place in range(len(line)):
        before, here, after = line[:place], line[place : place + 1], line[place + 1 :]
        yield before + after
        yield before + here + here + after
        yield from (before + byte + after for byte in every if byte != here)
    for place in range(len(line) + 1):
        yield from (line[:place] + byte + line[place:] for byte in every)


# --- numbers ----------------------------------------------------------------------------------------------------------

OUTSIDE: Final = {
    "seq": (-1, -2, -1000, -(2**31), -(2**63), -(2**64), -(10**50)),
    "cursor": (-2, -3, -1000, -(2**31), -(2**63), -(2**64), -(10**50)),
    "delta": (-1001, 1001, -1002, 1002, -(10**6), 10**6, -(2**63), 2**63, 2**64, 10**50, -(10**400), 10**400),
    "limit": (0, -1, 17, 18, -16, 128, -(2**63), 2**63, 2**64, 10**50),
}


def wrong_numbers(name: str, right: int) -> Iterator[object]:
    """Ints that are out of bounds for ``name``, and what is not exactly an int."""
    yield from OUTSIDE[name]
    yield from not_exactly(right)


# --- logs -------------------------------------------------------------------------------------------------------------

Log = list[tuple[int, int]]


def log_from(first: int, length: int) -> Log:
    """A log of so many events; neighbours differ in delta, and the ends of delta are among them."""
    return [(first + place, (place * 377) % 2001 - 1000) for place in range(length)]


LOG: Final = log_from(10, 20)

BAD_LOGS: Final[dict[str, object]] = {
    "an empty list": [],
    "an empty tuple": (),
    "an empty dict": {},
    "an empty text": "",
    "None": None,
    "a number": 7,
    "True": True,
    "a text": "log",
    "bytes": b"log",
    "a dict": {10: 7, 11: 7},
    "an object": object(),
    "129 events": log_from(10, BOUNDS["log"].high + 1),
    "129 events from 0": log_from(0, BOUNDS["log"].high + 1),
    "1000 events": log_from(10, 1000),
    "a gap in the middle": [*LOG[:9], *LOG[10:]],
    "a gap before the last": [*LOG[:-2], LOG[-1]],
    "a gap behind the first": [LOG[0], *LOG[2:]],
    "an event twice": [*LOG[:9], LOG[8], *LOG[9:]],
    "the first twice": [LOG[0], *LOG],
    "the last twice": [*LOG, LOG[-1]],
    "one event replaced by its neighbour": [*LOG[:9], LOG[8], *LOG[10:]],
    "a descending log": [(11, 7), (10, 7)],
    "two events swapped": [*LOG[:9], LOG[10], LOG[9], *LOG[11:]],
    "the last two swapped": [*LOG[:-2], LOG[-1], LOG[-2]],
    "steps of two": LOG[::2],
    "two logs in one": [*LOG, *log_from(10, 20)],
    "events from -1": [(-1, 7), (0, 7), (1, 7)],
    "a bare number": [*LOG[:9], 19, *LOG[10:]],
    "a None": [*LOG[:9], None, *LOG[10:]],
    "an empty event": [*LOG[:9], (), *LOG[10:]],
    "a seq without its delta": [*LOG[:9], (19,), *LOG[10:]],
    "an event of three": [*LOG[:9], (19, 7, 7), *LOG[10:]],
    "an event of None": [*LOG[:9], (None, None), *LOG[10:]],
}


def with_number(place: int, field: int, value: object) -> list[tuple[object, ...]]:
    """The log with another value for the seq (0) or the delta (1) of one event."""
    events: list[tuple[object, ...]] = list(LOG)
    event = list(events[place])
    event[field] = value
    events[place] = tuple(event)
    return events
