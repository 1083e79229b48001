"""Fault hooks: an error before COMMIT undoes everything, one after it nothing, and it arrives as the same object."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from model import lease
from model.contract import FAULT_HOOKS, Claim, Crash, Enqueue, Finish, Plain, Planted, Redrive, Reply
from model.counterexample import differences, show
from model.port import PLANTS, fetched, returned
from model.queue import Worker, ticket_dict
from stateful_tests.clauses import CHANGES, Fixture, Program, T, follow
from stateful_tests.guard import PLANTED_TEXT, QueueGuard

pytestmark = pytest.mark.layer("contract")

HOOKED = {
    f"{name} {hook.name}": (name, hook)
    for name, (_, op) in CHANGES.items()
    for hook in FAULT_HOOKS
    if hook.op is type(op) and name != "claim that only buries"
}
BEFORE_COMMIT = [where for where, (_, hook) in HOOKED.items() if not hook.kept]
AFTER_COMMIT = [where for where, (_, hook) in HOOKED.items() if hook.kept]

OTHERS: dict[str, type[BaseException]] = {
    "StopIteration": StopIteration,
    "ValueError": ValueError,
    "sqlite3.OperationalError": sqlite3.OperationalError,
    "sqlite3.IntegrityError": sqlite3.IntegrityError,
}


@pytest.mark.parametrize("error", PLANTS)
@pytest.mark.parametrize("where", HOOKED)
def test_the_error_of_a_hook_arrives_itself(lockstep: Fixture, where: str, error: Planted) -> None:
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    pair = lockstep(connections=2)
    follow(pair, program)
    pair.do(Crash(op, hook.name, error))
    pair.do(Enqueue("z", 1, 0, 50_000), con=2)
    pair.do(op)


# What the lent connection itself sees at each hook: the status of the job, and the number of audit rows.
SEEN: dict[str, list[tuple[str, str, int]]] = {
    "claim of a new job": [("after-claim", "leased", 0), ("after-commit", "leased", 0)],
    "finish with ok": [("after-finish", "done", 0), ("after-commit", "done", 0)],
    "finish with retry": [("after-finish", "pending", 0), ("after-commit", "pending", 0)],
    "redrive": [("after-audit", "dead", 1), ("after-redrive", "pending", 1), ("after-commit", "pending", 1)],
}


@pytest.mark.parametrize("name", SEEN)
def test_each_hook_follows_its_change(queue: QueueGuard, name: str) -> None:
    program, op = CHANGES[name]
    queue.prepare(program)
    seen: list[tuple[object, ...]] = []

    def fault(hook: str) -> None:
        look = "SELECT status, (SELECT count(*) FROM redrives) FROM jobs WHERE id = 'a'"
        seen.append((hook, *fetched(queue.con, look)[0]))

    queue.call(type(op).__name__.lower(), queue.con, *arguments(op), fault)
    queue.expect(seen == SEEN[name], f"{queue.lines[-1]} shows its hooks {seen}, must show {SEEN[name]}")


def arguments(op: Plain) -> list[Any]:
    """What stands between ``con`` and ``fault`` in the call."""
    return [ticket_dict(op.ticket), *astuple(op)[1:]] if isinstance(op, Finish) else [*astuple(op)]


def raise_at(
    queue: QueueGuard, con: sqlite3.Connection, where: str, error: BaseException, first: Callable[[], object] = bool
) -> None:
    """The call on ``con`` must end in the error that its hook raises after doing something of its own."""
    name, hook = HOOKED[where]
    _, op = CHANGES[name]

    def fault(reached: str) -> None:
        if reached == hook.name:
            first()
            raise error

    queue.raises(error, type(op).__name__.lower(), con, *arguments(op), fault)


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("where", BEFORE_COMMIT)
def test_no_kind_of_error_is_kept_back(queue: QueueGuard, where: str, error: str) -> None:
    before = queue.prepare(CHANGES[HOOKED[where][0]][0])
    raise_at(queue, queue.con, where, OTHERS[error](PLANTED_TEXT))
    queue.unchanged(before)


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("where", AFTER_COMMIT)
def test_an_error_after_commit_arrives_itself(queue: QueueGuard, where: str, error: str) -> None:
    before = queue.prepare(CHANGES[HOOKED[where][0]][0])
    raise_at(queue, queue.con, where, OTHERS[error](PLANTED_TEXT))
    queue.expect(queue.rows() != before, f"{queue.lines[-1]} loses what it had committed")
    queue.idle(queue.con)


@pytest.mark.parametrize("where", HOOKED)
def test_a_hook_that_says_locked_is_not_called_again(queue: QueueGuard, where: str) -> None:
    """The text is SQLite's for a lock, which is not the hook's to wait for."""
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    before = queue.prepare(program)
    queue.raises_once(
        sqlite3.OperationalError("database is locked"), hook.name, type(op).__name__.lower(), queue.con, *arguments(op)
    )
    if not hook.kept:
        queue.unchanged(before)


ELSEWHERE: dict[type[Plain], tuple[Program, Plain]] = {
    Claim: (((Enqueue("first", 1, 0, 50_000), True),), Claim("y", 5, 7)),
    Finish: ((), Finish(T, "permanent", 51)),
    Redrive: ((), Redrive("a", 61, 200, "other")),
}
"""What is done on another file, where these steps come first: the same call with other values."""


@pytest.mark.parametrize("where", HOOKED)
def test_the_same_call_on_another_file_changes_nothing_here(
    worker: Worker, tmp_path: Path, did: Counter[str], where: str
) -> None:
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    function = type(op).__name__.lower()
    with QueueGuard(worker, tmp_path / "here.db", did) as here, QueueGuard(worker, tmp_path / "there.db", did) as there:
        other, elsewhere = ELSEWHERE[type(op)]
        state = there.prepare((*other, *program))
        want_there, reply_there = lease.step(state, elsewhere)
        want, reply = lease.step(here.prepare(program), op)
        said = list[Reply]()

        def fault(reached: str) -> None:
            if reached == hook.name:
                said.append(there.do(elsewhere))

        got = here.call(function, here.con, *arguments(op), fault)
        here.expect(returned(got) == reply, f"{here.lines[-1]} returns {got!r}, must return {show(reply)}")
        differs = differences(here.rows(), want) or differences(there.rows(), want_there)
        here.expect(said == [reply_there] and not differs, f"{here.lines[-1]}: {differs or said}")


@pytest.mark.parametrize("where", HOOKED)
def test_a_hook_returns_what_it_likes(queue: QueueGuard, where: str) -> None:
    name, _ = HOOKED[where]
    program, op = CHANGES[name]
    after, reply = lease.step(queue.prepare(program), op)
    got = queue.call(type(op).__name__.lower(), queue.con, *arguments(op), lambda _: False)
    queue.expect(returned(got) == reply, f"{queue.lines[-1]} returns {got!r}, must return {show(reply)}")
    differs = differences(queue.rows(), after)
    queue.expect(not differs, f"{queue.lines[-1]}: {differs}")


@pytest.mark.parametrize("where", BEFORE_COMMIT)
def test_a_hook_may_roll_back_itself(queue: QueueGuard, where: str) -> None:
    before = queue.prepare(CHANGES[HOOKED[where][0]][0])
    raise_at(queue, queue.con, where, Exception(PLANTED_TEXT), lambda: queue.con.execute("ROLLBACK").close())
    queue.unchanged(before)


class Stubborn(sqlite3.Connection):
    """Rolls back, and from a certain moment on says that it could not."""

    refuses = False

    def refuse(self) -> None:
        self.refuses = True

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as sqlite3 has it
        cursor = super().execute(sql, *values)
        if "ROLLBACK" in sql.upper():
            self._complain()
        return cursor

    def rollback(self) -> None:
        super().rollback()
        self._complain()

    def _complain(self) -> None:
        if self.refuses:
            raise sqlite3.OperationalError("cannot rollback")


@pytest.mark.parametrize("error", ["Exception", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", BEFORE_COMMIT)
def test_a_failing_rollback_hides_no_error(queue: QueueGuard, where: str, error: str) -> None:
    before = queue.prepare(CHANGES[HOOKED[where][0]][0])
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None, factory=Stubborn)) as con:
        raise_at(queue, con, where, PLANTS[error](PLANTED_TEXT), con.refuse)
        queue.unchanged(before)
        queue.idle(con)


class Falsy:
    """A hook that is false, and writes down where it was called."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def __call__(self, hook: str) -> None:
        self.reached.append(hook)

    def __bool__(self) -> bool:
        return False


def test_a_hook_that_is_false_is_called(queue: QueueGuard) -> None:
    queue.call("enqueue", queue.con, {"id": "a", "qty": 5}, 0, 50_000)
    hook = Falsy()
    ticket = queue.call("claim", queue.con, "w", 0, 100, fault=hook)
    queue.call("finish", queue.con, ticket, "permanent", 50, fault=hook)
    queue.call("redrive", queue.con, "a", 60, 100, "n", fault=hook)
    must = [hook.name for hook in FAULT_HOOKS]
    queue.expect(hook.reached == must, f"a hook that is false is called at {hook.reached}, must be at {must}")
