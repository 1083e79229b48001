"""Values of the wrong form, derived from the bounds of the contract: each of them is a ValueError."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from model.contract import BOUNDS


def _named(self: object) -> str:
    """The value behind the name of its type, so that a message tells it from the exact one."""
    plain = next(kind for kind in (int, float, str, dict) if isinstance(self, kind))
    return f"{type(self).__name__}({plain.__repr__(self)})"


class WholeNumber(int):
    """An int, but not exactly."""

    __repr__ = _named


class Real(float):
    """A float, but not exactly."""

    __repr__ = _named


class Text(str):
    """A str, but not exactly."""

    __slots__ = ()
    __repr__ = _named


class Record(dict[str, Any]):
    """A dict, but not exactly."""

    __repr__ = _named


class Index:
    """What can stand for an int wherever Python asks for one, as numbers of other libraries do."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        return self.value == other

    def __lt__(self, other: int) -> bool:
        return self.value < other

    def __le__(self, other: int) -> bool:
        return self.value <= other

    def __gt__(self, other: int) -> bool:
        return self.value > other

    def __ge__(self, other: int) -> bool:
        return self.value >= other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Index({self.value})"


def wrong_ints(name: str) -> Iterator[object]:
    """Ints outside the bounds of ``name``, then everything that is not exactly an int and yet counts as one."""
    low, high = BOUNDS[name]
    yield from (low - 1, high + 1, -1, -(2**63), 2**63, 2**64, 10**400)
    yield from (float(high), *not_exactly(low))


def not_exactly(right: int) -> Iterator[object]:
    """What is not exactly an int, though most of it counts as this one somewhere."""
    yield from (True, False)
    yield from (WholeNumber(right), Index(right), float(right), Decimal(right), Fraction(right), complex(right))
    yield from (math.nan, math.inf, -math.inf, right + 0.5)
    yield from (str(right), str(right).encode(), "", None, [right], (right,), {})


ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

WRONG_IDENTIFIERS: tuple[object, ...] = (
    *("", "a" * 65, "a" * 1000),
    *("a\n", "\na", "a\n\n", "a\r", "a b", " a", "a ", "a\tb", "a\x00", "\x00"),
    *(f"a{mark}" for mark in "!\"#$%&'()*+,./:;<=>?@[\\]^`{|}~\x7f"),
    *("\u00e9", "e\u0301", "\uff11", "\u0661", "\u00b2", "\u2160", "\u017f", "\u212a", "\u0130", "\u00aa"),
    *("\u0430", "\uff41", "\uff3f", "\u2010", "\u2013", "\u200b", "a\u2028", "\ufeffa", "\ud800", "a\udcff"),
    *(Text("a"), b"a", bytearray(b"a"), None, True, 1, 1.0, ["a"], ("a",), {"a": 1}),
)  # fmt: skip
"""No identifiers: by length, by a character, by type."""

WRONG_OUTCOMES: tuple[object, ...] = (
    *("", "OK", "Ok", "ok ", " ok", "ok\n", "okay", "o", "stale", "done", "dead", "pending", "exhausted", "deadline"),
    *(Text("ok"), Text("retry"), b"ok", None, True, False, 0, 1, ["ok"], ("ok", "retry"), {"ok"}, {}),
)

WRONG_JITTERS: tuple[object, ...] = (
    *(-5e-324, -0.5, -1, -1.0, 1.0000000000000002, 1.5, 2, 10**400, -(10**400)),
    *(math.nan, -math.nan, math.inf, -math.inf, True, False),
    *(Real(0.5), WholeNumber(0), WholeNumber(1), Index(1), Decimal("0.5"), Decimal("NaN"), Fraction(1, 2), 0.5 + 0j),
    *("1", "0.5", b"1", "", None, [0.5], (1,), {}),
)

WRONG_PATHS: tuple[object, ...] = ("", ":memory:", b"queue.db", 0, 7, -1, None, True, False, 1.5, ["queue.db"], {})


def wrong_dicts(right: dict[str, Any]) -> Iterator[object]:
    """One key too few, one too many, another name; then everything that is not exactly a dict and yet maps."""
    more: dict[object, Any] = dict(right.items())
    for key, value in right.items():
        rest = {name: other for name, other in more.items() if name != key}
        yield from (rest, {**rest, key.upper(): value}, {**rest, key.encode(): value})
    yield from ({}, {**more, "extra": None}, {**more, "status": "leased"}, {**more, None: 1}, {**more, 1: 1})
    yield from (Record(right), OrderedDict(right), UserDict(right), MappingProxyType(right))
    yield from (list(right.items()), list(right), tuple(right.values()), set(right), None, True, 1, "id", b"{}")


def wrong_values(place: str, right: object) -> Iterator[object]:
    """All wrong forms for a place such as ``now_ms`` or ``ticket.owner``, whose right value is given."""
    name = place.rpartition(".")[2]
    if name in BOUNDS:
        return wrong_ints(name)
    if isinstance(right, dict):
        return wrong_dicts(right)
    return iter({"outcome": WRONG_OUTCOMES, "jitter": WRONG_JITTERS}.get(name, WRONG_IDENTIFIERS))


def fingerprint(value: object) -> object:
    """All that a call could change about an argument: its items, their order, their types."""
    if isinstance(value, dict | UserDict | MappingProxyType):
        return type(value), [(key, fingerprint(item)) for key, item in value.items()]
    return type(value), repr(value)
