"""A lent connection comes back as it was, open and with every setting of the caller's."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import pytest

from model import lease
from model.contract import LOCKED, Enqueue
from model.port import impatient
from stateful_tests.clauses import EVERY_CALL
from stateful_tests.guard import Guard

pytestmark = pytest.mark.layer("contract")

PRAGMAS = (
    *("busy_timeout", "journal_mode", "synchronous", "locking_mode", "cache_size", "temp_store", "foreign_keys"),
    *("recursive_triggers", "query_only", "ignore_check_constraints", "defer_foreign_keys", "read_uncommitted"),
)


def as_it_is(_: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row factory that changes nothing, and can be told from none."""
    return row


def as_text(raw: bytes) -> str:
    """A text factory that does what the default one does."""
    return raw.decode()


def settings(con: sqlite3.Connection) -> dict[str, object]:
    """All that a call could have left different."""
    held: dict[str, object] = {"row_factory": con.row_factory, "text_factory": con.text_factory}
    held["isolation_level"] = con.isolation_level
    with contextlib.closing(con.cursor()) as cursor:
        cursor.row_factory = None
        held.update({name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS})
    return held


def set_apart(queue: Guard) -> dict[str, object]:
    """Give the connection settings that no default would restore."""
    queue.con.row_factory, queue.con.text_factory = as_it_is, as_text
    for setting in ("busy_timeout = 777", "cache_size = -1234", "foreign_keys = ON", "recursive_triggers = ON"):
        queue.con.execute(f"PRAGMA {setting}").close()
    return settings(queue.con)


def compare(queue: Guard, before: dict[str, object]) -> None:
    try:
        after = settings(queue.con)
    except sqlite3.ProgrammingError:
        queue.fail(f"{queue.lines[-1]} closes the connection that it was lent")
    for name, value in before.items():
        queue.expect(after[name] == value, f"{queue.lines[-1]} leaves {name} {after[name]!r}, it was {value!r}")


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_call_leaves_every_setting(queue: Guard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before, lent = queue.prepare(program), set_apart(queue)
    queue.must(op, lease.step(before, op)[1])
    compare(queue, lent)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_locked_call_leaves_every_setting(queue: Guard, name: str) -> None:
    program, op = EVERY_CALL[name]
    before = queue.prepare(program)
    must, lent = lease.step(before, op)[1], set_apart(queue)
    with impatient(queue.con):
        queue.other.execute("BEGIN IMMEDIATE").close()
        queue.must(op, LOCKED, must)
        queue.other.execute("ROLLBACK").close()
    compare(queue, lent)


WRONG: dict[str, tuple[object, ...]] = {
    "enqueue": ({"id": "a", "qty": 0}, 0, 100),
    "claim": ("w", -1),
    "finish": ({}, "ok", 0),
    "redrive": ("a", 0, 0, "n"),
    "run_once": ("w", lambda: 0, lambda _: 1, 0.5),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_refusal_leaves_every_setting(queue: Guard, function: str) -> None:
    queue.do(Enqueue("a", 5, 0, 50_000))
    lent = set_apart(queue)
    queue.attempt(function, queue.con, *WRONG[function])
    compare(queue, lent)
