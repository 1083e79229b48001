"""A connection that is lent: statements of its owner's on it, and all that a call could leave different."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from model.contract import LOCKED
from model.counterexample import source
from model.port import fetched, first_word, impatient
from stateful_tests.guard import Guard

PRAGMAS = (
    *("busy_timeout", "journal_mode", "synchronous", "locking_mode", "cache_size", "temp_store", "foreign_keys"),
    *("recursive_triggers", "query_only", "ignore_check_constraints", "defer_foreign_keys", "read_uncommitted"),
    *("automatic_index", "cache_spill", "secure_delete", "reverse_unordered_selects", "trusted_schema", "mmap_size"),
    *("cell_size_check", "journal_size_limit", "threads", "legacy_alter_table", "fullfsync", "max_page_count"),
)
SETTINGS = (
    *("busy_timeout = 777", "cache_size = -1234", "foreign_keys = ON"),
    *("recursive_triggers = ON", "synchronous = NORMAL", "temp_store = MEMORY"),
    *("journal_mode = PERSIST", "automatic_index = ON"),
)
"""None of them is what the opener sets, or SQLite by itself; but for the last, which an opener may have taken away."""


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
    for name in PRAGMAS:
        held[name] = next((value for (value,) in fetched(con, f"PRAGMA {name}")), None)
    held["TEMP schema"] = fetched(con, "SELECT type, name FROM sqlite_temp_master ORDER BY name")
    return held


def set_apart(guard: Guard[Any, Any]) -> dict[str, object]:
    """Give the connection settings that no default would restore."""
    if guard.con.row_factory is None:  # an opener may have one of its own, and its module rely on it
        guard.con.row_factory = as_it_is
    guard.con.text_factory = as_text
    for setting in SETTINGS:
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


def keeps_settings(guard: Guard[Any, Any], op: Any, before: Any) -> None:  # noqa: ANN401 - of the guard's contract
    """The operation, over these rows, answers as it must and leaves every setting as it was."""
    lent = set_apart(guard)
    guard.must(op, guard.subject.model.step(before, op)[1])
    compare(guard, lent)


def keeps_settings_when_locked(guard: Guard[Any, Any], op: Any, before: Any) -> None:  # noqa: ANN401
    """The same while another connection holds the write lock; what has nothing to change may succeed all the same."""
    must, lent = guard.subject.model.step(before, op)[1], set_apart(guard)
    with impatient(guard.con):
        guard.other.execute("BEGIN IMMEDIATE").close()
        guard.must(op, LOCKED, must)
        guard.other.execute("ROLLBACK").close()
    compare(guard, lent)


def says_the_same_of_rows(guard: Guard[Any, Any], op: Any, before: Any) -> None:  # noqa: ANN401
    """The operation does what it must where the caller's rows are of another class."""
    after, must = guard.subject.model.step(before, op)
    if guard.con.row_factory is None:
        guard.con.row_factory = sqlite3.Row
        guard.lines.append("con1.row_factory = sqlite3.Row")
    guard.must(op, must)
    guard.unchanged(after)


def locks_before_it_reads(guard: Guard[Any, Any], op: Any) -> None:  # noqa: ANN401
    """At no statement of a transaction that changes rows could another connection get the write lock."""
    con, before = guard.con, guard.rows()
    begun: list[tuple[int, list[str]]] = []
    """Of each transaction: how many rows were changed before it, and its statements that had no write lock."""

    def probe(statement: str) -> None:
        if first_word(statement) == "BEGIN":
            begun.append((con.total_changes, []))
        if not begun or not con.in_transaction:
            return
        with contextlib.suppress(sqlite3.OperationalError):
            guard.other.execute("BEGIN IMMEDIATE").close()
            guard.other.execute("ROLLBACK").close()
            begun[-1][1].append(" ".join(statement.split()[:3]))

    con.set_trace_callback(probe)
    guard.do(op)
    con.set_trace_callback(None)
    if not begun and guard.rows() != before:
        raise RuntimeError(f"{source(op)} keeps its statements from the trace callback of the lent connection")
    ends = [*(changes for changes, _ in begun[1:]), con.total_changes]
    free = [each for (changes, looks), end in zip(begun, ends, strict=False) if changes != end for each in looks]
    guard.expect(not free, f"{source(op)} executes {free[:1]} without the write lock, must BEGIN IMMEDIATE")


def lend(guard: Guard[Any, Any], *statements: str) -> None:
    """Execute the statements on the connection that is lent next."""
    for statement in statements:
        guard.con.execute(statement).close()
        guard.lines.append(f'con1.execute("{statement}")')
