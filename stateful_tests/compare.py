"""In what a module under test differs from the model, in words; nothing where all agrees.

They lack the operation in front: ``claim(…) returns None, must return …``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from model.contract import Hook, State
from model.counterexample import Line, Violation, program
from model.port import Queue, one_line

Seqs = tuple[list[int], list[int]]


def opened(queue: Queue, lines: Sequence[Line] = ()) -> sqlite3.Connection:
    """``open_queue``, where it has no reason to refuse: whatever it raises is its own fault, and a Violation."""
    try:
        return queue.worker.open_queue(queue.path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
        raise Violation(f"worker.open_queue raises {one_line(error)}", program(lines)) from None


def hooks_differ(called: Sequence[str], due: Sequence[Hook]) -> str:
    """The hooks that were called must be those that are due, in their order (T6)."""
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


def seqs_of(state: State) -> Seqs:
    """The ``seq`` of every row of both tables."""
    return [job.seq for job in state.jobs], [audit.seq for audit in state.redrives]


def renumbered(old: Seqs, new: Seqs) -> str:
    """A row keeps its ``seq``, and a new row gets a higher one."""
    for table, before, after in zip(State._fields, old, new, strict=True):
        if after[: len(before)] != before:
            return f"renumbers {table}: seq was {before}, is {after}"
    return ""
