"""A connection that is lent: statements of its owner's on it, and all that a call could leave different."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from stateful_tests.guard import Guard

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


def set_apart(guard: Guard[Any, Any]) -> dict[str, object]:
    """Give the connection settings that no default would restore."""
    guard.con.row_factory, guard.con.text_factory = as_it_is, as_text
    for setting in ("busy_timeout = 777", "cache_size = -1234", "foreign_keys = ON", "recursive_triggers = ON"):
        guard.con.execute(f"PRAGMA {setting}").close()
    return settings(guard.con)


def compare(guard: Guard[Any, Any], before: dict[str, object]) -> None:
    """The last call left every setting as it was."""
    try:
        after = settings(guard.con)
    except sqlite3.ProgrammingError:
        guard.fail(f"{guard.lines[-1]} closes the connection that it was lent")
    for name, value in before.items():
        guard.expect(after[name] == value, f"{guard.lines[-1]} leaves {name} {after[name]!r}, it was {value!r}")


def lend(guard: Guard[Any, Any], *statements: str) -> None:
    """Execute the statements on the connection that is lent next."""
    for statement in statements:
        guard.con.execute(statement).close()
        guard.lines.append(f'con1.execute("{statement}")')
