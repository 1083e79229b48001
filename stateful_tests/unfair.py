"""The unfair publisher: sessions that Hypothesis draws are played to ``run_client`` over a real socket.

What is drawn holds no seq: which events there are to send depends on what the store then holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from hypothesis import given, seed
from hypothesis import strategies as st

from model import steps, stream
from model.contract import PLANTED, Crash, Raise, Return
from model.counterexample import Violation
from model.events import BAD_LINE, BOUNDS, FAULT_HOOKS, Consume, State, event_line, resume_line
from model.store import Client
from stateful_tests.lockstep import Transcript
from stateful_tests.machine import reproducible
from stateful_tests.playing import DieAt, Hang
from stateful_tests.sessions import Sessions, last_and_total

Kind = Literal["next", "again", "other", "gap", "bad", "long"]
Flow = Literal["held", "sent", "cut", "heard"]
Ending = Literal["half-close", "close", "reset", "fragment"]

SESSIONS_OF_CLIENT: Final = "client sessions"
"""What a program of these is called where it is written down."""

DELTAS: Final = (7, 0, -1000, 1000, -3)
NO_LINES: Final = (
    b"\n",
    b"EVENT 0 7\r\n",
    b"EVENT 00 7\n",
    b"EVENT 0 +7\n",
    b"EVENT 0 -0\n",
    b"EVENT 0 1001\n",
    b"x" * 63 + b"\n",
)
LONG: Final = (b"EVENT 0 7".ljust(64) + b"\n", event_line(10**56, 7), b"x" * 64 + b"EVENT 0 7\n", b"x" * 300 + b"\n")


# --- what is drawn ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Act:
    """One line, and how it goes: held back for the next segment, sent, cut in two, or sent and waited for."""

    kind: Kind
    number: int
    flow: Flow

    def line(self, state: State) -> bytes:
        """The bytes, where the store holds this."""
        match self.kind:
            case "bad":
                return NO_LINES[self.number % len(NO_LINES)]
            case "long":
                return LONG[self.number % len(LONG)]
            case "gap":
                return event_line(stream.last_of(state) + 2 + self.number, 7)
            case "again" | "other" if state.ledger:
                known = state.ledger[self.number % len(state.ledger)]
                return event_line(known.seq, known.delta if self.kind == "again" else -known.delta or 1)
        return event_line(stream.last_of(state) + 1, DELTAS[self.number % len(DELTAS)])


@dataclass(frozen=True, slots=True)
class Session:
    """What one publisher does, and where the receiver dies of it, if it does: at a hook, in its nth new event."""

    acts: tuple[Act, ...]
    ending: Ending
    crash: tuple[str, int] | None


KINDS: Final[tuple[Kind, ...]] = ("next", "next", "next", "next", "again", "again", "other", "gap", "bad", "long")
FLOWS: Final[tuple[Flow, ...]] = ("heard", "held", "sent", "cut")
ENDINGS: Final[tuple[Ending, ...]] = ("half-close", "close", "reset", "fragment")
HOOKS: Final = tuple(dict.fromkeys(hook.name for hook in FAULT_HOOKS))

ACTS = st.builds(Act, st.sampled_from(KINDS), st.integers(0, 6), st.sampled_from(FLOWS))
CRASHES = st.none() | st.tuples(st.sampled_from(HOOKS), st.integers(1, 3))
SESSIONS = st.builds(Session, st.lists(ACTS, max_size=8).map(tuple), st.sampled_from(ENDINGS), CRASHES)
PROGRAMS = st.lists(SESSIONS, min_size=1, max_size=4)

# --- what must come of it ---------------------------------------------------------------------------------------------


class Course:
    """The model in one session: the states it goes through, what it answers, and the first line that it refuses."""

    def __init__(self, state: State, crash: tuple[str, int] | None) -> None:
        self.states = [state]
        self.acks: list[bytes] = []
        self.refused: Raise | None = None
        self.too_long = False
        self._crash, self._new = crash, 0

    @property
    def state(self) -> State:
        return self.states[-1]

    def take(self, line: bytes) -> None:
        """The next line; after a refusal none counts."""
        if self.refused:
            return
        before, op = self.state, Consume(line)
        after, reply = stream.step(before, op)
        self._new += after is not before
        if self._crash and after is not before and self._crash[1] == self._new:
            after, reply = stream.step(before, Crash(op, self._crash[0]))
        self.states.append(after)
        if isinstance(reply, Return):
            self.acks.append(cast("bytes", reply.value))
        else:
            self.refused, self.too_long = reply, not BOUNDS["line"].allows(len(line))


# --- playing it -------------------------------------------------------------------------------------------------------


def play(sessions: Sessions, session: Session, state: State) -> State:
    """Play one session to the module, judge what comes of it, and say what the store holds then."""
    planted = Exception("planted")
    course, heard = Course(state, session.crash), 0
    fault = DieAt(session.crash[0], planted, session.crash[1]) if session.crash else None
    sessions.welcome(stream.last_of(state), fault=fault)
    rest = b""
    for act in session.acts:
        line = act.line(course.state)
        course.take(line)
        rest = _flow(sessions, act.flow, rest + line)
        if act.flow == "heard" and not course.refused:
            sessions.hear(b"".join(course.acks[heard:]))
            heard = len(course.acks)
    if session.ending == "fragment":
        rest += event_line(stream.last_of(course.state) + 1, 7)[:-1]
    if rest:
        sessions.send(rest)
    if session.ending == "reset":
        sessions.publisher.reset()
        return _after_a_reset(sessions, course.states[heard:])
    if session.ending == "close" and not course.refused:
        sessions.hear(b"".join(course.acks[heard:]))
        sessions.publisher.hang_up()
    else:
        sessions.publisher.half_close()
    _judge(sessions, course, session.ending == "fragment", planted)
    return course.state


def _flow(sessions: Sessions, flow: Flow, data: bytes) -> bytes:
    """Send of the data what goes now; the rest."""
    match flow:
        case "held":
            return data
        case "cut":
            half = len(data) // 2
            sessions.send(data[:half])
            sessions.settle()
            return data[half:]
        case _:
            sessions.send(data)
            return b""


def _judge(sessions: Sessions, course: Course, fragment: bool, planted: Exception) -> None:  # noqa: FBT001 - as drawn
    if course.refused == PLANTED:
        sessions.arrives(planted)
    elif course.refused and course.refused != BAD_LINE:
        sessions.raises(getattr(sessions.client, course.refused.error))
    elif course.refused and not course.too_long:
        sessions.raises(sessions.client.BadLine)
    elif course.refused or fragment:
        sessions.raises()
    else:
        sessions.returns(*last_and_total(course.state))
    want = resume_line(stream.last_of(course.states[0])) + b"".join(course.acks)
    if not course.refused or not want.startswith(sessions.publisher.heard):
        # A socket that is closed with something unread is reset, and what the kernel has not sent yet is lost.
        sessions.heard_exactly(want)
    sessions.agrees(course.state)


def _after_a_reset(sessions: Sessions, states: list[State]) -> State:
    """A reset overtakes what was sent before it: any number of the events may have been processed, in their order."""
    ended, rows = sessions.end(), sessions.rows()
    if rows not in states:
        sessions.agrees(states[-1])
    if ended.error is None and ended.value != last_and_total(rows):
        sessions.fail(f"run_client {ended}, must return {last_and_total(rows)} or raise an error")
    if ended.error is not None and not isinstance(ended.error, Exception):
        sessions.fail(f"run_client {ended} after a reset, must raise an Exception")
    return rows


def play_all(client: Client, path: Path, did: Counter[str], program: Iterable[Session]) -> None:
    """Play one session after another over one store, a new file."""
    taken, state = [SESSIONS_OF_CLIENT], stream.EMPTY
    steps.program(SESSIONS_OF_CLIENT)
    try:
        with Sessions(client, path, did) as sessions:
            for session in program:
                taken.append(repr(session))
                steps.session(session)
                state = play(sessions, session, state)
    except Violation as violation:
        violation.steps = tuple(taken)
        raise


# --- many of them -----------------------------------------------------------------------------------------------------


class _Enough(BaseException):
    """Takes a Hang past Hypothesis: to shrink a program that hangs would take hours."""

    def __init__(self, hang: Hang) -> None:
        self.hang = hang


def run(client: Client, folder: Path, did: Counter[str], transcript: Transcript, number: int, programs: int) -> None:
    """Play so many programs, all fixed by the seed ``number``; the shortest failing one arrives as a Violation."""

    @seed(number)
    @reproducible(programs)
    @given(PROGRAMS)
    def unfair(program: list[Session]) -> None:
        did["programs"] += 1
        transcript.add(program)
        path = folder / f"program-{did['programs']}.db"
        try:
            play_all(client, path, did, program)
        except Hang as hang:
            raise _Enough(hang) from None
        finally:
            path.unlink(missing_ok=True)

    try:
        unfair()
    except _Enough as enough:
        raise Violation(enough.hang.difference, enough.hang.program, enough.hang.steps) from None
