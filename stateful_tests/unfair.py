"""The unfair publisher: sessions that Hypothesis draws are played to ``run_client`` over a real socket."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from hypothesis import given, reproduce_failure, seed
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase

from model import steps, stream
from model.contract import PLANTED, Crash, Raise, Return
from model.counterexample import Violation
from model.events import BAD_LINE, BOUNDS, Consume, State, event_line, resume_line
from model.store import Client
from stateful_tests.acts import ENDINGS, FLOWS, HOOKS, KINDS, SESSIONS_OF_CLIENT, Act, Flow, Session
from stateful_tests.lockstep import Transcript
from stateful_tests.playing import DieAt, Hang
from stateful_tests.search import NOTHING, VERSION, origin, reproducible, saved
from stateful_tests.sessions import Sessions, last_and_total

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


def run(
    client: Client,
    folder: Path,
    did: Counter[str],
    transcript: Transcript,
    number: int,
    programs: int,
    database: ExampleDatabase | None = None,
) -> None:
    """Play so many programs, all fixed by the seed ``number``; the shortest failing one arrives as a Violation."""
    how = reproducible(programs, database=database)
    _search(how(seed(number)(_unfair(client, folder, did, transcript))), number)


def run_saved(
    client: Client, folder: Path, did: Counter[str], number: int, database: ExampleDatabase | None, blob: str = ""
) -> None:
    """Play what failed before, by the database, or just the program that ``blob`` stands for."""
    unfair = saved(database)(seed(number)(_unfair(client, folder, did, Transcript())))
    with contextlib.suppress(*NOTHING):
        _search(reproduce_failure(VERSION, blob.encode())(unfair) if blob else unfair)


def _unfair(client: Client, folder: Path, did: Counter[str], transcript: Transcript) -> Callable[[], None]:
    """What Hypothesis runs; its seed goes on before its settings, from which it takes the database away."""

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

    return unfair


def _search(unfair: Callable[[], None], number: int | None = None) -> None:
    try:
        unfair()
    except _Enough as enough:
        raise Violation(enough.hang.difference, enough.hang.program, enough.hang.steps) from None
    except Violation as violation:
        violation.origin = origin(violation, "unfair", number)
        raise
