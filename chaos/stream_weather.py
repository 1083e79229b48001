"""What a storm of receivers is made of, drawn from a seed: what is published, who dies where, how a session goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from chaos.sessions import HOOKS, Death
from model.events import BOUNDS, event_line

End = Literal["finishes", "closes", "leaves", "resets", "cuts off", "skips", "contradicts", "babbles"]
"""How the publisher ends a session: nothing more is sent and all is read; the same, when all is acknowledged; closed
with ACKs unread; torn down; within a line; after a line that skips an event, that changes one, or that is none."""

ENDS: Final[tuple[End, ...]] = (
    *("finishes",) * 4,
    *("closes",) * 3,
    *("leaves",) * 2,
    *("resets",) * 3,
    *("cuts off", "skips", "contradicts", "babbles") * 2,
)
BABBLE: Final = (
    b"EVENT %d 01\n",
    b"EVENT %d +1\n",
    b"EVENT %d 1\r\n",
    b"event %d 1\n",
    b"EVENT %d 1001\n",
    b"EVENT %d -0\n",
    b"ACK %d\n",
)


@dataclass(frozen=True, slots=True)
class Weather:
    """How much must have happened before the storm may end: else it could have shown too little.

    No more than ``spare`` events beyond ``events`` are published, and no more than ``sessions`` are held, for that.
    """

    events: int = 3000
    spare: int = 3000
    kills: int = 30
    resends: int = 300
    sessions: int = 1000

    def lacks(self, did: Mapping[str, int]) -> str:
        """What has not happened often enough; empty if everything has."""
        least = {"receivers killed": self.kills, "events": self.events, "resends": self.resends}
        return ", ".join(
            f"{did.get(what, 0)} {what}, must be {count}" for what, count in least.items() if did.get(what, 0) < count
        )


@dataclass(frozen=True, slots=True)
class Fate:
    """One process: how many calls it makes, and the hook that kills it, or when somebody else does.

    It is struck down from outside in its session ``strike_in``, from 1 on, as soon as ``strike_at`` bytes are sent in
    it.
    """

    calls: int
    hook: Death = ""
    nth: int = 1
    strike_in: int = 0
    strike_at: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """One session: how far back it starts, how many new events it has, how many lines are sent at once, how it ends.

    Each of those sendings is cut into ``pieces`` segments.
    """

    back: int
    fresh: int
    window: int
    pieces: int
    end: End


def log(random: Random, count: int) -> list[tuple[int, int]]:
    """So many events; some change nothing, some as much as is allowed."""
    low, high = BOUNDS["delta"]
    return [
        (seq, random.choice((0, low, high, *(random.randint(low, high) for _ in range(5))))) for seq in range(count)
    ]


def fate(random: Random) -> Fate:
    """Two of five die in a hook, two are struck down wherever they are, and one may live."""
    share, calls = random.random(), random.randrange(1, 5)
    if share < 0.4:
        return Fate(calls, random.choice(HOOKS), random.randrange(1, 120))
    if share < 0.8:
        return Fate(calls, strike_in=random.randint(1, calls), strike_at=int(random.random() ** 2 * 1200))
    return Fate(calls)


def course(random: Random, last: int) -> Course:
    """What follows a RESUME of ``last``: about every second session starts with what was acknowledged before."""
    back = random.choice((0, 0, 0, 1, 1, random.randrange(40), random.randrange(40)))
    if random.random() < 0.01:
        back = last + 1
    window = random.choice((1, random.randrange(2, 9), random.randrange(2, 65)))
    fresh = random.randrange(20 if window == 1 else 120)
    return Course(min(back, last + 1), fresh, window, random.randrange(1, 4), random.choice(ENDS))


def last_line(random: Random, end: End, log: Sequence[tuple[int, int]], following: int) -> bytes:
    """What a session that ends like this ends with; ``following`` is the event that would be sent next."""
    seq, delta = log[following]
    match end:
        case "cuts off":
            line = event_line(seq, delta)
            return line[: random.randrange(1, len(line))]
        case "skips":
            return event_line(seq + random.choice((1, 1, 2, 9, 10**18)), delta)
        case "contradicts" if following:
            seq, delta = log[random.choice((following - 1, random.randrange(following)))]
            return event_line(seq, delta - 1 if delta > 0 else delta + 1)
        case "babbles":
            return random.choice(BABBLE) % seq
    return b""
