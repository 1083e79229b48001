"""How a module under test differs from the model, in words; nothing where all agrees.

The words lack the operation in front: ``claim(…) returns None, must return …``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from model.contract import Hook
from model.counterexample import Line, Rows, Violation, program
from model.port import Subject, one_line

Seqs = tuple[list[int], ...]


def opened(subject: Subject[Any, Any], lines: Sequence[Line] = ()) -> sqlite3.Connection:
    """The module's opener, where it has no reason to refuse: whatever it raises is its own fault, and a Violation."""
    kind = subject.kind
    try:
        return subject.open()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        raise Violation(f"{kind.name}.{kind.opener} raises {one_line(error)}", program(lines, kind)) from None


def hooks_differ(called: Sequence[str], due: Sequence[Hook]) -> str:
    """The hooks that were called must be those that are due, in their order."""
    must = [hook.name for hook in due]
    if called == must:
        return ""
    return f"calls {', '.join(called) or 'no hook'}, must call {', '.join(must) or 'no hook'}"


def commit_misplaced(hook: Hook, in_transaction: bool) -> str:  # noqa: FBT001 - as the connection says it
    """What a hook keeps must be committed when it is called, and what it loses must not."""
    if in_transaction != hook.kept:
        return ""
    return f"calls {hook.name} {'before' if hook.kept else 'after'} its COMMIT"


def transaction_left(con: sqlite3.Connection) -> str:
    """An operation gives its connection back open, and without a transaction."""
    try:
        return "leaves a transaction open on its connection" if con.in_transaction else ""
    except sqlite3.ProgrammingError:
        return "closes the connection that it was lent"


def seqs_of(rows: Rows) -> Seqs:
    """The number of every row of each table."""
    return tuple([row[0] for row in table] for table in rows)


def renumbered(old: Seqs, new: Seqs, tables: Sequence[str]) -> str:
    """A row keeps its number, and a new row gets a higher one."""
    for table, before, after in zip(tables, old, new, strict=True):
        if after[: len(before)] != before:
            return f"renumbers {table}: seq was {before}, is {after}"
    return ""
