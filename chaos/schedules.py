"""Two operations, interleaved: A stands in one of its hooks while B runs over another connection, or a reader comes.

Before A's BEGIN, B comes first, whatever A may have read already; if A has a second BEGIN, some order must still
explain both. Before A's COMMIT, B is refused as locked, unless it has nothing to change; nothing of it happens. After
A's COMMIT, B is ordered after A. In all of it A answers as if nobody had been beside it, unless its hook fails; then
what it did is lost or kept as the hook table says. A reader that stays makes a COMMIT that is still to come fail as
locked; once it has left, A can be done again.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from chaos.matrix import Scene, Void
from chaos.prepared import Differs, opened
from chaos.stages import BEFORE_BEGIN, BEFORE_SECOND_BEGIN
from model import steps
from model.contract import LOCKED, Blocked, Crash, Hook, Reply
from model.counterexample import Line, Rows, Violation, differences, program, reply_differs, source
from model.port import Subject, connect, consistent, first_word, impatient, perform

Lock = Literal["must", "may", "must not"]
"""``may``: where an operation has nothing to change it can find that out with the lock or without."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``rival`` runs while ``op`` stands in ``hook``; None: a reader comes, and stays until ``op`` has ended.

    ``dies``: the hook then raises. ``lock``: whether the rival has to have the write lock, whatever comes of it.
    """

    scene: Scene
    hook: Hook
    rival: Any
    dies: bool = False
    lock: Lock = "must"

    @property
    def name(self) -> str:
        end = ", then dies" if self.dies else ""
        rival = "a reader" if self.rival is None else type(self.rival).__name__.lower()
        return f"{self.scene.name} stands in {self.hook.name}{end}: {rival}"


Rivals = Callable[[Scene], Iterable[tuple[Any, Lock]]]
"""Operations, and whether each has to have the write lock."""


def schedules(hook: Hook, scenes: Iterable[Scene], rivals: Rivals) -> Iterator[Schedule]:
    """Every scene that reaches the hook, or a BEGIN, with every rival; in a hook ended well and badly, and a reader."""
    in_hook = hook.name not in (BEFORE_BEGIN, BEFORE_SECOND_BEGIN)
    for scene in scenes:
        if type(scene.op) is hook.op:
            for rival, lock in rivals(scene):
                for dies in (False, True)[: 1 + in_hook]:
                    yield Schedule(scene, hook, rival, dies, lock)
            if in_hook:
                yield Schedule(scene, hook, None)


def by_hook(hooks: Iterable[Hook], scenes: Iterable[Scene], rivals: Rivals) -> dict[Hook, tuple[Schedule, ...]]:
    """The schedules of each hook; Void if one has none."""
    scenes = tuple(scenes)
    all_ = {hook: tuple(schedules(hook, scenes, rivals)) for hook in hooks}
    for hook, row in all_.items():
        if not row:
            raise Void(f"{hook.name} of {hook.op.__name__}: the hook is listed, but no schedule reaches it")
    return all_


# --- one schedule -----------------------------------------------------------------------------------------------------


def check(schedule: Schedule, subject: Subject[Any, Any]) -> bool:
    """Run one schedule on a new file, and say whether ``op`` came to where it is held: there need be no second BEGIN.

    A Violation with the program if anything differs from the model.
    """
    held = True
    steps.program(f"# {schedule.name}")
    stage = _Stage(schedule, subject, subject.model.EMPTY)
    with stage.open() as first, stage.open() as second, impatient(first), impatient(second):
        for op in schedule.scene.setup:
            stage.expect(op, 1, perform(subject, first, op))
        if schedule.hook.name == BEFORE_BEGIN:
            stage.run_late(first, second)
        elif schedule.hook.name == BEFORE_SECOND_BEGIN:
            held = stage.run_between(first, second)
        elif schedule.rival is None:
            stage.run_under_reader(first)
        else:
            stage.run(first, second)
        if first.in_transaction or second.in_transaction:
            stage.fail("a transaction is left open on its connection")
        stage.compare()
    return held


@dataclass(slots=True)
class _Stage:
    schedule: Schedule
    subject: Subject[Any, Any]
    state: Any
    lines: list[Line] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        try:
            with opened(self.subject) as con:
                yield con
        except Differs as problem:
            self.fail(str(problem))

    def run(self, first: sqlite3.Connection, second: sqlite3.Connection) -> None:
        """A on the first connection, B on the second from inside A's hook; then replies and rows."""
        schedule, said, before = self.schedule, list[Reply](), self.state

        def watch(hook: str) -> None:
            if hook == schedule.hook.name:
                said.append(perform(self.subject, second, schedule.rival))

        op = Crash(schedule.scene.op, schedule.hook.name) if schedule.dies else schedule.scene.op
        self.expect(op, 1, perform(self.subject, first, op, watch))
        if not said:
            self.fail(f"{source(op)} never called {schedule.hook.name}")
        if schedule.hook.kept:
            self.expect(schedule.rival, 2, said[0])
        else:
            _, unlocked = self.subject.model.step(before, schedule.rival)
            locked = schedule.lock == "must" or (schedule.lock == "may" and said[0] == LOCKED)
            self.differ(schedule.rival, 2, said[0], LOCKED if locked else unlocked)

    def run_late(self, first: sqlite3.Connection, second: sqlite3.Connection) -> None:
        """B on the second connection just before A's BEGIN on the first one; that A reads meanwhile may lock B out."""
        op, rival = self.schedule.scene.op, self.schedule.rival
        got, said = self._at_begin(1, first, second)
        if said and said[0] != LOCKED:
            self.expect(rival, 2, said[0])
        self.expect(op, 1, got)
        if not said:
            self.fail(f"{source(op)} never came to its BEGIN")

    def run_between(self, first: sqlite3.Connection, second: sqlite3.Connection) -> bool:
        """B just before A's second BEGIN; whether A has one. What comes of it must be A and B in some order."""
        op, rival = self.schedule.scene.op, self.schedule.rival
        got, said = self._at_begin(2, first, second)
        if not said or said[0] == LOCKED:
            self.expect(op, 1, got)
        else:
            self._explain(Line(op, 1, got), Line(rival, 2, said[0]))
        return bool(said)

    def _explain(self, mine: Line, theirs: Line) -> None:
        """Go on to where an order of the two leads that explains both replies and the rows."""
        rows = self._rows()
        for order in ((theirs, mine), (mine, theirs)):
            state, explained = self.state, True
            for line in order:
                state, want = self.subject.model.step(state, line.op)
                explained &= not reply_differs(line.op, line.reply, want)
            if explained and not isinstance(rows, str) and not differences(rows, state):
                self.state = state
                return
        self.lines += [mine, theirs]
        both = f"it and {source(theirs.op, 'con2')}"
        self.fail(f"{source(mine.op)} has a second BEGIN, and no order explains what {both} leave")

    def _at_begin(self, nth: int, first: sqlite3.Connection, second: sqlite3.Connection) -> tuple[Reply, list[Reply]]:
        """A's reply, and what B replied just before A's BEGIN of that number; nothing if A has none."""
        said, begins = list[Reply](), itertools.count(1)

        def trace(sql: str) -> None:
            if first_word(sql) == "BEGIN" and next(begins) == nth:
                said.append(perform(self.subject, second, self.schedule.rival))

        first.set_trace_callback(trace)
        got = perform(self.subject, first, self.schedule.scene.op)
        first.set_trace_callback(None)
        return got, said

    def run_under_reader(self, first: sqlite3.Connection) -> None:
        """A with a reader from its hook on; then, when it has left, A again."""
        schedule, op, seen = self.schedule, self.schedule.scene.op, list[str]()
        with contextlib.ExitStack() as stack:

            def watch(hook: str) -> None:
                if hook == schedule.hook.name:
                    seen.append(_reads(stack, self.subject.path))

            got = perform(self.subject, first, op, watch)
        if seen != [""]:
            self.fail(seen[0] if seen else f"{source(op)} never called {schedule.hook.name}")
        self.expect(op if schedule.hook.kept else Blocked(op), 1, got)
        self.expect(op, 1, perform(self.subject, first, op))

    def expect(self, op: Any, con: int, got: Reply) -> None:  # noqa: ANN401 - an operation of the subject's
        """The model goes on to what is there after ``op``, and says what it must reply."""
        self.state, want = self.subject.model.step(self.state, op)
        self.differ(op, con, got, want)

    def differ(self, op: Any, con: int, got: Reply, want: Reply) -> None:  # noqa: ANN401
        self.lines.append(Line(op, con, got))
        if difference := reply_differs(op, got, want):
            self.fail(f"{source(op, f'con{con}')} {difference}")

    def compare(self) -> None:
        rows = self._rows()
        if difference := rows if isinstance(rows, str) else differences(rows, self.state):
            self.fail(difference)

    def _rows(self) -> Rows | str:
        """What another connection sees, or why it cannot read."""
        try:
            with contextlib.closing(connect(self.subject.path)) as con:
                return self.subject.ranked(self.subject.observe(con))
        except sqlite3.Error as error:
            return f"another connection cannot read: {error}"

    def fail(self, what: str) -> NoReturn:
        schedule = self.schedule
        who = "a reader comes" if schedule.rival is None else "con2 runs"
        text = [*program(self.lines, self.subject.kind), f"# {who} while con1 stands in {schedule.hook.name}"]
        raise Violation(f"while {schedule.scene.name} stands in {schedule.hook.name}: {what}", text)


def _reads(stack: contextlib.ExitStack, path: Path) -> str:
    """A reader that keeps its lock until ``stack`` ends; why there is none, or an empty text."""
    con = stack.enter_context(contextlib.closing(connect(path)))
    try:
        con.execute("PRAGMA busy_timeout = 0").close()
        stack.enter_context(consistent(con))
        con.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        return f"another connection cannot read: {error}"
    return ""
