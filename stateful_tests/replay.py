"""Every transition of a finite world, each by itself: rows put into a file, one operation, all that comes of it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from model import scopes, stream_scopes
from model.contract import Hook, Reply
from model.counterexample import Line, Story, Violation, differences, program, reply_differs, source
from model.explorer import Step, World, explore
from model.port import Subject, connect, perform
from model.telling import Taken, story
from stateful_tests.compare import (
    commit_misplaced,
    hooks_differ,
    opened,
    renumbered,
    seqs_of,
    transaction_left,
)

Transition = Step[Any, Any, Reply]
Search = World[Any, Any, Reply]
Judged = Callable[[Path], Subject[Any, Any]]
"""The module under test, at work on the file of that path."""

Covered = dict[str, list[int]]
"""By operation: how many transitions were replayed, and how many the whole world has."""


class Unshown(Exception):
    """A difference that no program shows on a clean file: then nothing is known, neither way."""


@cache
def world_of(name: str) -> Search:
    """The whole scope of this name, searched once in each process; it must be as large as ever."""
    at = scopes if name in scopes.SCOPES else stream_scopes
    world: Search = explore(at.SCOPES[name])
    size = len(world.states), world.transitions.total()
    if size != at.SIZES[name]:
        raise RuntimeError(
            f"the model has changed: scope {name} has {size} states and transitions, not {at.SIZES[name]}"
        )
    return world


def share(world: Search, shard: int, shards: int) -> range:
    """The numbers of the states that this shard takes: all shards together take each state once."""
    return range(shard, len(world.states), shards)


def transitions(world: Search, number: int) -> Iterator[Transition]:
    """Everything that may be asked in this state, and what must come of it; refusals and self-loops are among it."""
    return _asked(world, world.states[number])


def _asked(world: Search, before: State) -> Iterator[Transition]:
    for op in world.scope.ops(before):
        yield Step(before, op, *world.scope.step(before, op))


def nothing_of(worlds: Iterable[Search]) -> Covered:
    """Nothing replayed yet, of all that these worlds have."""
    total = sum((world.transitions for world in worlds), Counter[str]())
    return {name.lower(): [0, count] for name, count in total.items()}


def replay(
    judged: Judged,
    folder: Path,
    world: Search,
    numbers: Iterable[int],
    covered: Covered,
    walked: Callable[[Transition], object] = lambda _: None,
) -> Iterator[int]:
    """Replay every transition from the states ``numbers``; each number is yielded when its state is done.

    Violation at the first transition that differs, with a shortest program that shows it; ``covered`` goes along, and
    ``walked`` is called with each transition that agrees. The files under test lie in ``folder``.
    """
    with Stage(judged(folder / "replayed.db")) as stage:
        for number in numbers:
            for step in transitions(world, number):
                if difference := stage.run(step, then=step.before).difference:
                    raise _shown(judged, folder, _ways(world, number, step), step, difference)
                covered[type(step.op).__name__.lower()][0] += 1
                walked(step)
            yield number


# --- one transition ---------------------------------------------------------------------------------------------------

# ruff: noqa: S608 - the pieces are names of tables and columns; every value is bound
State = Any
Rows = list[tuple[Any, ...]]


class _Tables:
    """How the rows of all tables are read and put: a row as read has its table's number in front, and is as wide as
    the widest.
    """

    def __init__(self, forms: Mapping[str, type[Any]]) -> None:
        self._forms = forms
        self._width = max(len(form._fields) for form in forms.values())
        reads = (
            f"SELECT {number}, {', '.join(form._fields)}{', NULL' * (self._width - len(form._fields))} FROM {table}"
            for number, (table, form) in enumerate(forms.items())
        )
        self.read = " UNION ALL ".join(reads)
        self.puts = [
            f"INSERT INTO {table} ({', '.join(form._fields)}) VALUES ({', '.join('?' * len(form._fields))})"
            for table, form in forms.items()
        ]

    def rows_of(self, state: State) -> Rows:
        """The state as ``read`` gives it."""
        width = self._width
        return [(number, *row, *(None,) * (width - len(row))) for number, table in enumerate(state) for row in table]

    def state_of(self, rows: Rows, like: State) -> State:
        """The state that was read, each table in its order; of the type of ``like``."""
        tables = (
            sorted(form(*row[1 : 1 + len(form._fields)]) for row in rows if row[0] == number)
            for number, form in enumerate(self._forms.values())
        )
        return type(like)(*map(tuple, tables))


class Outcome(NamedTuple):
    """What the module replied, and how it differs from the model: in nothing if empty."""

    reply: Reply
    difference: str


class Stage:
    """A file that the module opened, its connection, and one of the harness that sets the scene."""

    def __init__(self, subject: Subject[Any, Any]) -> None:
        self._subject = subject
        self._con = opened(subject)
        self._keeper = connect(subject.path)
        # What lasts is not at stake here, speed is. And nobody else has a reason to hold a lock now.
        for setting in ("journal_mode = MEMORY", "synchronous = OFF", "busy_timeout = 0"):
            self._keeper.execute(f"PRAGMA {setting}").fetchall()
        numbered = self._keeper.execute("SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchall()
        self._cleared = [*subject.tables, *(name for (name,) in numbered)]
        self._tables = _Tables(subject.tables)
        self._state: State = None
        self._rows: Rows = []
        self._read: Rows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()
        self._keeper.close()

    def run(self, step: Transition, then: State) -> Outcome:
        """Perform the operation over the rows of ``step.before`` and compare reply, hooks, transaction and rows.

        Afterwards the file holds ``then``; where there is a difference, nobody knows what it holds.
        """
        if step.before is not self._state:
            self._set_the_scene(step.before)
        self._read = None
        con, seen = self._con, list[tuple[str, bool]]()

        def watch(hook: str) -> None:
            seen.append((hook, con.in_transaction))

        reply = perform(self._subject, con, step.op, watch)
        difference = (
            reply_differs(step.op, reply, step.reply)
            or _hooks_differ(self._subject.model.hooks_reached(step.before, step.op), seen)
            or transaction_left(con)
            or self._rows_differ(step, then)
        )
        return Outcome(reply, difference)

    def found(self, like: State) -> State | str:
        """The rows that the last operation left, or why they cannot be read."""
        try:
            rows = self._keeper.execute(self._tables.read).fetchall() if self._read is None else self._read
        except sqlite3.Error as error:
            return f"another connection cannot read: {error}"
        return self._subject.ranked(self._tables.state_of(rows, like))

    def _set_the_scene(self, state: State) -> None:
        kind = self._subject.kind
        try:
            self._keeper.execute("BEGIN EXCLUSIVE")
            self._put(state)
        except sqlite3.Error as error:
            raise Violation(
                f"{kind.name}.{kind.opener} makes a file that cannot hold the contract's rows: {error}"
            ) from None

    def _rows_differ(self, step: Transition, then: State) -> str:
        """A connection that can lock the file for itself shows that nobody kept a lock on it, not even a reader's."""
        try:
            self._keeper.execute("BEGIN EXCLUSIVE")
            self._read = rows = self._keeper.execute(self._tables.read).fetchall()
            if rows == self._rows and step.after is step.before is then:
                self._keeper.execute("ROLLBACK")
                return ""
            difference = self._differ(rows, step)
            self._put(then)
        except sqlite3.Error as error:
            return f"leaves the file so that another connection cannot write: {error}"
        return difference

    def _put(self, state: State) -> None:
        """These rows and no others, committed; the next number is the one after theirs."""
        for table in self._cleared:
            self._keeper.execute(f"DELETE FROM {table}")
        for put, rows in zip(self._tables.puts, state, strict=True):
            self._keeper.executemany(put, rows)
        self._keeper.execute("COMMIT")
        self._state, self._rows = state, self._tables.rows_of(state)

    def _differ(self, rows: Rows, step: Transition) -> str:
        """Rows that are not the very same may still be the same but for gaps in their numbers."""
        if rows == self._tables.rows_of(step.after):
            return ""
        found = self._tables.state_of(rows, like=step.after)
        if difference := differences(self._subject.ranked(found), step.after):
            return f"leaves {difference}"
        return renumbered(seqs_of(step.before), seqs_of(found), list(self._subject.tables))


def _hooks_differ(due: Sequence[Hook], seen: list[tuple[str, bool]]) -> str:
    if seen == [(hook.name, not hook.kept) for hook in due]:
        return ""
    if difference := hooks_differ([hook for hook, _ in seen], due):
        return difference
    misplaced = (commit_misplaced(hook, inside) for hook, (_, inside) in zip(due, seen, strict=True))
    return next(filter(None, misplaced), "")


# --- how a difference is shown ----------------------------------------------------------------------------------------


def _ways(world: Search, number: int, step: Transition) -> Iterator[list[Transition]]:
    """The shortest programs from the empty file through ``step``, or through what is the same but for a symmetry.

    The search keeps one of such states, so it may be another that a program reaches; several operations may stand for
    the one that is sought, and only some of them show the fault.
    """
    path, goal = world.path(number), world.scope.canonical(step.after)
    for last in _asked(world, path[-1].after if path else world.scope.initial):
        alike = type(last.op) is type(step.op) and type(last.reply) is type(step.reply)
        if alike and world.scope.canonical(last.after) == goal:
            yield [*path, last]


def _shown(
    judged: Judged, folder: Path, ways: Iterable[list[Transition]], step: Transition, difference: str
) -> Exception:
    """A Violation that was seen on a clean file: on a way from the empty file, else over the bare rows."""
    subject = judged(folder)
    kind, tables = subject.kind, subject.tables
    for number, way in enumerate(ways):
        with Stage(judged(folder / f"way-{number}.db")) as stage:
            lines, taken = list[Line](), list[Taken]()
            for each in way:
                reply, found = stage.run(each, then=each.after)
                lines.append(Line(each.op, 1, reply))
                taken.append(Taken(reply, each.reply, each.after, stage.found(each.after)))
                if found:
                    return _violation(each, found, program(lines, kind), partial(story, taken, tables))
    with Stage(judged(folder / "rows.db")) as stage:
        reply, found = stage.run(step, then=step.after)
        if found:
            shown = partial(story, [Taken(reply, step.reply, step.after, stage.found(step.after))], tables)
            return _violation(step, found, _over_rows(step.before, program([Line(step.op, 1, reply)], kind)), shown)
    return Unshown(f"{source(step.op)} {difference}; but on a clean file it does not: it remembers what no row says")


def _violation(step: Transition, difference: str, lines: list[str], shown: Story) -> Violation:
    whole = ["# rows before:", *_comments(step.before), *lines]
    return Violation(f"{source(step.op)} {difference}", whole, story=shown)


def _over_rows(state: State, lines: list[str]) -> list[str]:
    """The program with the rows put there before its last line."""
    rows = [f'con1.execute("REPLACE INTO {table} VALUES ({_sql(row)})")' for table, row in _named(state)]
    return [*lines[:-1], *rows, lines[-1]]


def _sql(row: tuple[Any, ...]) -> str:
    return ", ".join("NULL" if value is None else repr(value) for value in row)


def _comments(state: State) -> list[str]:
    """One row a line; columns that are NULL are left out."""
    texts = [
        f"#   {table}: {', '.join(f'{name} {value!r}' for name, value in row._asdict().items() if value is not None)}"
        for table, row in _named(state)
    ]
    return texts or ["#   none"]


def _named(state: State) -> Iterator[tuple[str, Any]]:
    yield from ((table, row) for table, rows in zip(state._fields, state, strict=True) for row in rows)
