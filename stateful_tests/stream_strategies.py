"""What Hypothesis draws for the store: events that come in turn, again, changed, too early or from far away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from model import stream
from model.events import BOUNDS, State, event_line
from model.stream_scopes import FAR

FARS: Final = (FAR, 2**63 - 1, 2**63, 10**54, 10**55)
"""A line of 64 bytes holds the last but one, none the last; no column holds more than the second."""

arrivals = st.sampled_from(
    ("next", "next", "next", "next", "next", "last", "known", "known", "conflicting", "gap", "far", "negative")
)
"""How an event stands to those that were processed."""

deltas = st.sampled_from((7, 7, 0, -1, *BOUNDS["delta"], BOUNDS["delta"].high + 1, BOUNDS["delta"].low - 1))
choices = st.integers(0, 31)
"""A number that stands for one of the events that there are to choose from when it is used; 0 is the first."""


def event(state: State, arrival: str, choice: int, delta: int) -> tuple[int, int]:
    """The event that arrives; ``delta`` is its delta, unless it is one that comes again."""
    upcoming = stream.last_of(state) + 1
    match arrival:
        case "gap":
            return upcoming + 1 + choice % 3, delta
        case "far":
            return FARS[choice % len(FARS)], delta
        case "negative":
            return -1, delta
        case "last" | "known" | "conflicting" if state.ledger:
            seq, known = state.ledger[-1 if arrival == "last" else choice % len(state.ledger)]
            return seq, _other(known, delta) if arrival == "conflicting" else known
    return upcoming, delta


def _other(known: int, delta: int) -> int:
    """``delta``, or one beside it if that is the known one."""
    return delta if delta != known else BOUNDS["delta"].low + (delta - BOUNDS["delta"].low + 1) % 2000


SPOILS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "no LF": lambda line: line[:-1],
    "CRLF": lambda line: line[:-1] + b"\r\n",
    "two LFs": lambda line: line + b"\n",
    "two lines": lambda line: line * 2,
    "nothing": lambda _: b"",
    "LF alone": lambda _: b"\n",
    "a leading zero": lambda line: line.replace(b"EVENT ", b"EVENT 0"),
    "a zero before the delta": lambda line: b" 0".join(line.rsplit(b" ", 1)),
    "a plus sign": lambda line: b" +".join(line.rsplit(b" ", 1)),
    "minus zero": lambda line: line.rsplit(b" ", 1)[0] + b" -0\n",
    "two spaces": lambda line: line.replace(b" ", b"  ", 1),
    "a tab": lambda line: line.replace(b" ", b"\t", 1),
    "a space in front": lambda line: b" " + line,
    "a space behind": lambda line: line[:-1] + b" \n",
    "lower case": bytes.lower,
    "another word": lambda line: line.replace(b"EVENT", b"ACK"),
    "digits of another alphabet": lambda line: line[:-1] + "\u0663".encode() + b"\n",
    "an underscore": lambda line: line[:-1] + b"_0\n",
    "no delta": lambda line: line.rsplit(b" ", 1)[0] + b"\n",
    "a third number": lambda line: line[:-1] + b" 0\n",
    "a fraction": lambda line: line[:-1] + b".0\n",
    "too long a line": lambda _: event_line(10**55, 0),
}
"""What makes any line of an event one of the wrong form."""

spoils = st.sampled_from(sorted(SPOILS))
