"""Every transition of a finite world, each by itself: rows put into a file, one operation, all that comes of it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

from model import lease
from model.contract import PLANTED, Audit, Job, Op, Reply, State
from model.counterexample import Line, Violation, differences, program, reply_differs, source
from model.explorer import Step, World, explore
from model.port import Performed, Queue, Worker, connect, perform, ranked
from model.scopes import SCOPES, SIZES
from stateful_tests.compare import (
    commit_misplaced,
    hooks_differ,
    opened,
    renumbered,
    seqs_of,
    transaction_left,
)

Transition = Step[State, Op, Reply]
Search = World[State, Op, Reply]

Covered = dict[str, list[int]]
"""By operation: how many transitions were replayed, and how many the whole world has."""


class Unshown(Exception):
    """A difference that no program shows on a clean file: then nothing is known, neither way."""


@cache
def world_of(name: str) -> Search:
    """The whole scope of this name, searched once in each process; it must be as large as ever."""
    world = explore(SCOPES[name])
    size = len(world.states), world.transitions.total()
    if size != SIZES[name]:
        raise RuntimeError(f"the model has changed: scope {name} has {size} states and transitions, not {SIZES[name]}")
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


def replay(worker: Worker, folder: Path, world: Search, numbers: Iterable[int], covered: Covered) -> Iterator[int]:
    """Replay every transition from the states ``numbers``; each number is yielded when its state is done.

    Violation at the first transition that differs, with a shortest program that shows it; ``covered`` goes along.
    The queue files lie in ``folder``.
    """
    with Stage(worker, folder / "replayed.db") as stage:
        for number in numbers:
            for step in transitions(world, number):
                if difference := stage.run(step, then=step.before).difference:
                    raise _shown(worker, folder, _ways(world, number, step), step, difference)
                covered[type(step.op).__name__.lower()][0] += 1
            yield number


# --- one transition ---------------------------------------------------------------------------------------------------

_JOB: Final = ", ".join(Job._fields)
_AUDIT: Final = ", ".join(Audit._fields)
_NONE: Final = (None,) * (len(Job._fields) - len(Audit._fields))
# ruff: noqa: S608 - the pieces are names of columns; every value is bound
_ROWS: Final = f"SELECT {_JOB} FROM jobs UNION ALL SELECT {_AUDIT}{', NULL' * len(_NONE)} FROM redrives"
_PUT_JOB: Final = f"INSERT INTO jobs ({_JOB}) VALUES ({', '.join('?' * len(Job._fields))})"
_PUT_AUDIT: Final = f"INSERT INTO redrives ({_AUDIT}) VALUES ({', '.join('?' * len(Audit._fields))})"

Rows = list[tuple[Any, ...]]


def _rows_of(state: State) -> Rows:
    """The state as ``_ROWS`` reads it: an audit row is as wide as a job's."""
    return [*state.jobs, *((*audit, *_NONE) for audit in state.redrives)]


class Outcome(NamedTuple):
    """What the module replied, and how it differs from the model: in nothing if empty."""

    reply: Reply
    difference: str


class Stage:
    """A queue file that ``open_queue`` made, its connection, and one of the harness that sets the scene."""

    def __init__(self, worker: Worker, path: Path) -> None:
        self._queue = Queue(worker, path)
        self._con = opened(self._queue)
        self._keeper = connect(path)
        # What lasts is not at stake here, speed is. And nobody else has a reason to hold a lock now.
        for setting in ("journal_mode = MEMORY", "synchronous = OFF", "busy_timeout = 0"):
            self._keeper.execute(f"PRAGMA {setting}").fetchall()
        self._state: State | None = None
        self._rows: Rows = []

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
        con, seen = self._con, list[tuple[str, bool]]()

        def watch(hook: str) -> None:
            seen.append((hook, con.in_transaction))

        reply = perform(self._queue, con, cast("Performed", step.op), watch)
        difference = (
            reply_differs(step.op, reply, step.reply)
            or _hooks_differ(step, seen)
            or transaction_left(con)
            or self._rows_differ(step, then)
        )
        return Outcome(reply, difference)

    def _set_the_scene(self, state: State) -> None:
        try:
            self._keeper.execute("BEGIN EXCLUSIVE")
            self._put(state)
        except sqlite3.Error as error:
            raise Violation(f"worker.open_queue makes a file that cannot hold the contract's rows: {error}") from None

    def _rows_differ(self, step: Transition, then: State) -> str:
        """A connection that can lock the file for itself shows that nobody kept a lock on it, not even a reader's."""
        try:
            self._keeper.execute("BEGIN EXCLUSIVE")
            rows = self._keeper.execute(_ROWS).fetchall()
            if rows == self._rows and step.after is step.before is then:
                self._keeper.execute("ROLLBACK")
                return ""
            difference = _differ(rows, step)
            self._put(then)
        except sqlite3.Error as error:
            return f"leaves the file so that another connection cannot write: {error}"
        return difference

    def _put(self, state: State) -> None:
        """These rows and no others, committed; the next ``seq`` is the one after theirs."""
        for table in ("jobs", "redrives", "sqlite_sequence"):
            self._keeper.execute(f"DELETE FROM {table}")
        self._keeper.executemany(_PUT_JOB, state.jobs)
        self._keeper.executemany(_PUT_AUDIT, state.redrives)
        self._keeper.execute("COMMIT")
        self._state, self._rows = state, _rows_of(state)


def _hooks_differ(step: Transition, seen: list[tuple[str, bool]]) -> str:
    """As ``lease.hooks_reached`` says, but from the reply that is already known."""
    due = lease.hooks_called(step.op) if step.reply == PLANTED or lease.made_its_change(step.reply) else ()
    if seen == [(hook.name, not hook.kept) for hook in due]:
        return ""
    if difference := hooks_differ([hook for hook, _ in seen], due):
        return difference
    misplaced = (commit_misplaced(hook, inside) for hook, (_, inside) in zip(due, seen, strict=True))
    return next(filter(None, misplaced), "")


def _differ(rows: Rows, step: Transition) -> str:
    """Rows that are not the very same may still be the same but for gaps in ``seq``."""
    if rows == _rows_of(step.after):
        return ""
    width = len(Audit._fields)
    jobs = sorted(Job(*row) for row in rows if row[width] is not None)
    audits = sorted(Audit(*row[:width]) for row in rows if row[width] is None)
    found = State(tuple(jobs), tuple(audits))
    if difference := differences(ranked(found), step.after):
        return f"leaves {difference}"
    return renumbered(seqs_of(step.before), seqs_of(found))


# --- how a difference is shown ----------------------------------------------------------------------------------------


def _ways(world: Search, number: int, step: Transition) -> Iterator[list[Transition]]:
    """The shortest programs from the empty queue through ``step``, or through what is the same but for a symmetry.

    The search keeps one of such states, so it may be another that a program reaches; several operations may stand for
    the one that is sought, and only some of them show the fault.
    """
    path, goal = world.path(number), world.scope.canonical(step.after)
    for last in _asked(world, path[-1].after if path else world.scope.initial):
        alike = type(last.op) is type(step.op) and type(last.reply) is type(step.reply)
        if alike and world.scope.canonical(last.after) == goal:
            yield [*path, last]


def _shown(
    worker: Worker, folder: Path, ways: Iterable[list[Transition]], step: Transition, difference: str
) -> Exception:
    """A Violation that was seen on a clean file: on a way from the empty queue, else over the bare rows."""
    for number, way in enumerate(ways):
        with Stage(worker, folder / f"way-{number}.db") as stage:
            lines: list[Line] = []
            for each in way:
                reply, found = stage.run(each, then=each.after)
                lines.append(Line(each.op, 1, reply))
                if found:
                    return _violation(each, found, program(lines))
    with Stage(worker, folder / "rows.db") as stage:
        reply, found = stage.run(step, then=step.after)
        if found:
            return _violation(step, found, _over_rows(step.before, program([Line(step.op, 1, reply)])))
    return Unshown(f"{source(step.op)} {difference}; but on a clean file it does not: it remembers what no row says")


def _violation(step: Transition, difference: str, lines: list[str]) -> Violation:
    return Violation(f"{source(step.op)} {difference}", ["# rows before:", *_comments(step.before), *lines])


def _over_rows(state: State, lines: list[str]) -> list[str]:
    """The program with the rows put there before its last line."""
    rows = [f'con1.execute("INSERT INTO {table} VALUES ({_sql(row)})")' for table, row in _named(state)]
    return [*lines[:-1], *rows, lines[-1]]


def _sql(row: Job | Audit) -> str:
    return ", ".join("NULL" if value is None else repr(value) for value in row)


def _comments(state: State) -> list[str]:
    """One row a line; columns that are NULL are left out."""
    texts = [
        f"#   {table}: {', '.join(f'{name} {value!r}' for name, value in row._asdict().items() if value is not None)}"
        for table, row in _named(state)
    ]
    return texts or ["#   none"]


def _named(state: State) -> Iterator[tuple[str, Job | Audit]]:
    yield from (("jobs", job) for job in state.jobs)
    yield from (("redrives", audit) for audit in state.redrives)
