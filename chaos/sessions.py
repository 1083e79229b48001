"""The receptions: what is sent to one receiver after another on one file, who dies where, and what must be left.

An experiment is data. The model says what each session must show: RESUME, an ACK for each line or the end, and what the
file holds then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from chaos.matrix import Void
from chaos.receiver import RETURNS
from model import stream
from model.contract import Crash, Reply, Return
from model.counterexample import show
from model.events import Consume, State, event_line, resume_line

Death = Literal["", "after-total", "after-commit", "unheard", "waiting", "within a line"]
"""Where a receiver is killed, once all that is sent has come to that: in a hook of its last event; connected, with its
RESUME unread; waiting for its next line; with half of its next line read."""

HOOKS: Final[tuple[Death, ...]] = ("after-total", "after-commit")
Event = tuple[int, int]
Log = tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """One ``run_client``: in a process of its own if the one before was killed.

    The publisher sends these lines: each when the one before is answered or, in a ``burst``, all at once. Then it
    finishes, and reads to the end; or it ``closes``. With a ``limit`` it sends what ``replay`` hands out instead, of
    the events of its log that it ``retains``, from the first seq to the last.
    """

    sends: tuple[bytes, ...] = ()
    dies: Death = ""
    burst: bool = False
    closes: bool = False
    limit: int = 0
    retains: tuple[int, int] = (0, 127)


class Story(NamedTuple):
    """What must be seen of one session, and what it finds and leaves in the file.

    ``lines`` are what is sent with what must be answered: nothing where the receiver dies, or ends. ``ends`` is how
    ``run_client`` must end; empty if it is killed. ``replays`` is how the publisher's replay must end.
    """

    found: State
    lines: list[tuple[bytes, bytes]]
    ends: str
    left: State
    replays: str = ""

    @property
    def saw(self) -> list[bytes]:
        """All that the publisher must see."""
        return [resume_line(stream.last_of(self.found)), *(answer for _, answer in self.lines if answer)]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Some sessions over one file; ``log`` is all that the publisher has ever had to say."""

    name: str
    sessions: tuple[Session, ...]
    log: Log

    def __post_init__(self) -> None:
        if self.sessions[-1].dies:
            raise Void(f"{self.name}: nobody takes over from the last receiver")
        for session, story in zip(self.sessions, self.stories(), strict=True):
            if session.dies in HOOKS and (story.lines[-1][1] or story.ends):
                raise Void(f"{self.name}: {session.dies} is not reached")

    def stories(self) -> list[Story]:
        """What the model says of each session."""
        stories, state = list[Story](), stream.EMPTY
        for session in self.sessions:
            stories.append(_story(state, session, self.log))
            state = stories[-1].left
        return stories

    def half(self, story: Story) -> bytes:
        """The first half of the line that would come next."""
        line = event_line(*self.log[stream.last_of(story.left) + 1])
        return line[: len(line) // 2]


def _story(found: State, session: Session, log: Log) -> Story:
    sends, replays = (_replayed(found, session, log)) if session.limit else (session.sends, "")
    state, lines = found, list[tuple[bytes, bytes]]()
    for number, data in enumerate(sends, 1):
        last = session.dies in HOOKS and number == len(sends)
        state, reply = stream.step(state, Crash(Consume(data), session.dies, "SIGKILL") if last else Consume(data))
        answer = reply.value if isinstance(reply, Return) else b""
        lines.append((data, answer if isinstance(answer, bytes) else b""))
        if not answer:
            return Story(found, lines, "" if last else show(reply), state, replays)
    return Story(found, lines, "" if session.dies else returns(state), state, replays)


def returns(state: State) -> str:
    """How a session that the publisher ended must end."""
    (checkpoint,) = state.checkpoint
    return RETURNS.format((checkpoint.last, checkpoint.total))


def _replayed(state: State, session: Session, log: Log) -> tuple[tuple[bytes, ...], str]:
    """What is handed out in the end, batch after batch, and how that ends."""
    first, last = session.retains
    retained = [event for event in log if first <= event[0] <= last]
    cursor, handed = stream.last_of(state), list[Event]()
    while batch := stream.replay(retained, cursor, session.limit):
        if not isinstance(batch, list):
            return (), _error(batch)
        handed += batch
        cursor = handed[-1][0]
    return tuple(event_line(*event) for event in handed), "well"


def _error(reply: Reply) -> str:
    return show(reply).removeprefix("raises ")


# --- the list ---------------------------------------------------------------------------------------------------------


def numbered(*deltas: int) -> Log:
    """A log of these deltas, from 0 on."""
    return tuple(enumerate(deltas))


LOG: Final = numbered(7, -3, 5, 0, 1000, -1000, 2, 1)
FLAT: Final = numbered(0, 0, 0, 0)
FALLING: Final = numbered(-1000, -1, -7, -2)


def lines(first: int, last: int, log: Log = LOG) -> tuple[bytes, ...]:
    """Of these events."""
    return tuple(event_line(*event) for event in log[first : last + 1])


def _takeover(name: str, dies: Death, last: int, log: Log = LOG, times: int = 1) -> Experiment:
    """Killed ``times`` with event ``last``, or after it; who takes over is sent that one again, and what follows it."""
    first, again = max(last, 0), lines(max(last, 0), last + 1, log)
    deaths = [Session(lines(0, last, log), dies)]
    for nth in range(1, times):
        end = last + nth * (dies == "after-commit")
        deaths.append(Session(lines(first, end, log) if dies in HOOKS else again[:-1], dies))
    end = last + times if dies == "after-commit" else last + 1
    return Experiment(name, (*deaths, Session(lines(first, end, log), burst=True)), log)


CLOSING: Final = Experiment(
    "killed before ACK 1 leaves",
    (Session(lines(0, 1), "after-commit"), Session(lines(1, 2))),
    LOG,
)
"""The one that the contract itself names: RESUME 1, 1 again, and the new 2."""


def _deaths() -> Iterator[Experiment]:
    for dies in HOOKS:
        yield _takeover(f"killed in {dies} of the first event", dies, 0)
        yield _takeover(f"killed in {dies} of a later event", dies, 2)
        yield _takeover(f"killed in {dies} of a delta of 0", dies, 1, FLAT)
        yield _takeover(f"killed in {dies} of a negative delta", dies, 1, FALLING)
        yield _takeover(f"killed in {dies} twice", dies, 1, times=2)
    yield _takeover("killed while it waits for the first line", "waiting", -1)
    yield _takeover("killed between ACK 0 and the next line", "waiting", 0)
    yield _takeover("killed between a later ACK and the next line", "waiting", 3)
    yield _takeover("killed while it waits, twice", "waiting", 1, times=2)
    yield _takeover("killed within the first line", "within a line", -1)
    yield _takeover("killed within a later line", "within a line", 2)
    yield _takeover("killed within a line, twice", "within a line", 0, times=2)
    once = Session(lines(0, 1), "after-commit")
    yield Experiment("killed before its RESUME is read", (Session(dies="unheard"), Session(lines(0, 1))), LOG)
    yield Experiment("killed before a later RESUME is read", (once, Session(dies="unheard"), Session(lines(1, 2))), LOG)


DEATHS: Final = (CLOSING, *_deaths())

ALL: Final = Session(lines(0, 4))
KILLED: Final = Session(lines(0, 4), "after-commit")
RESENDS: Final = (
    Experiment("all of the log again", (KILLED, Session(lines(0, 6))), LOG),
    Experiment("all of the log again at once", (KILLED, Session(lines(0, 6), burst=True)), LOG),
    Experiment("all of the log again and nothing new", (ALL, Session(lines(0, 4), burst=True), ALL), LOG),
    Experiment("one event again and again", (ALL, Session(lines(2, 2) * 5 + lines(4, 4) * 2 + lines(0, 0))), LOG),
    Experiment("all at once", (Session(lines(0, 7), burst=True), Session()), LOG),
    Experiment("nothing at all", (Session(), Session(closes=True)), LOG),
    Experiment("closed both ways", (replace(ALL, closes=True), Session(lines(3, 5), closes=True)), LOG),
)


def _wrong(name: str, *sends: bytes, before: Session = ALL) -> Experiment:
    """The last line ends the session, and the next receiver goes on from there."""
    return Experiment(name, (before, Session(sends), Session(lines(5, 6))), LOG)


WRONG: Final = (
    _wrong("a conflict with the last event", event_line(4, 999)),
    _wrong("a conflict with an earlier event", event_line(1, 3)),
    _wrong("a conflict with the first event", *lines(4, 4), event_line(0, 0)),
    _wrong("a conflict that comes before new events", event_line(3, 1), *lines(5, 6)),
    _wrong("one event is skipped", *lines(6, 6)),
    _wrong("only the newest is sent", *lines(7, 7), before=Session(lines(0, 4), "waiting")),
    _wrong("one event is skipped after one again", *lines(4, 4), *lines(6, 7)),
    _wrong("a line that is none", b"EVENT 5 -0\n", *lines(5, 5)),
)
"""The lines after the wrong one are sent as well where there are any, in one segment with it."""


def _replay(name: str, retains: tuple[int, int], limit: int = 2, before: Sequence[Session] = (ALL,)) -> Experiment:
    return Experiment(name, (*before, Session(limit=limit, retains=retains), Session()), LOG)


RETAINED: Final = (
    _replay("replayed from what is retained whole", (0, 7), before=(KILLED,)),
    _replay("replayed one by one", (3, 7), limit=1),
    _replay("replayed from the event after the cursor on", (5, 7), limit=16),
    _replay("replayed to one who has nothing", (0, 7), 3, ()),
    _replay("replayed to one who has everything", (2, 4)),
    _replay("the event after the cursor is no longer retained", (6, 7), before=(KILLED,)),
    _replay("only the newest event is retained", (7, 7), limit=16),
    _replay("the first event is no longer retained", (1, 7), 16, ()),
    _replay("the publisher has lost what the receiver holds", (0, 3)),
)

EXPERIMENTS: Final = {each.name: each for each in (*DEATHS, *RESENDS, *WRONG, *RETAINED)}
