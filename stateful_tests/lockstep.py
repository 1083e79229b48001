"""Run the same operations on the model and on a real queue file, and stop at the first difference."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from model import lease
from model.contract import Blocked, Crash, Hook, Op, Reopen, Reply, Return, State
from model.counterexample import Line, Violation, differences, program, reply_differs, source
from model.port import Queue, Worker, connect, observe, perform, ranked
from stateful_tests.compare import (
    Seqs,
    commit_misplaced,
    hooks_differ,
    opened,
    renumbered,
    seqs_of,
    transaction_left,
)


class Glimpse(NamedTuple):
    """What there was to see when a hook was called: the rows for another connection, the caller's transaction."""

    hook: str
    rows: State | str
    in_transaction: bool


class Transcript:
    """A running digest of programs: equal for two runs exactly if they performed and answered the same."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, lines: list[Line]) -> None:
        self._digest.update(repr(lines).encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()


class Lockstep:
    """One queue file, several connections to it, and the model beside it.

    ``do`` performs an operation on both and compares the reply, the hooks reached, what another connection sees at each
    hook, every column of every row, and that no transaction is left open. The first difference is a Violation.
    """

    def __init__(self, worker: Worker, path: Path, did: Counter[str], connections: int = 1) -> None:
        self.queue = Queue(worker, path)
        self.state = lease.EMPTY
        self.did = did
        self.lines: list[Line] = []
        self._seqs: Seqs = ([], [])
        self._cons = {1: self._connect()}
        self._observer = connect(path)
        self._observer.execute("PRAGMA busy_timeout = 0").close()
        for number in range(2, connections + 1):
            self._cons[number] = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for con in (*self._cons.values(), self._observer):
            con.close()

    def do(self, op: Op, con: int = 1) -> Reply:
        """Perform ``op`` on connection number ``con`` and on the model; the reply they agree on."""
        before = self.state
        self.state, want = lease.step(before, op)
        glimpses: list[Glimpse] = []
        got = self._perform(op, con, glimpses)
        self.lines.append(Line(op, con, got))
        self.did["operations compared"] += 1
        self._agree(op, reply_differs(op, got, want))
        self._check_hooks(op, before, glimpses)
        self._agree(op, transaction_left(self._cons[con]))
        self._check_rows(op)
        return got

    def _perform(self, op: Op, con: int, glimpses: list[Glimpse]) -> Reply:
        if isinstance(op, Reopen):
            self._cons[con].close()
            self._cons[con] = self._connect()
            return Return(None)

        def watch(hook: str) -> None:
            glimpses.append(Glimpse(hook, self._look(), self._cons[con].in_transaction))

        return perform(self.queue, self._cons[con], op, watch)

    def _connect(self) -> sqlite3.Connection:
        return opened(self.queue, self.lines)

    def _look(self) -> State | str:
        """What another connection sees, or why it cannot read."""
        try:
            return observe(self._observer)
        except sqlite3.Error as error:
            return f"another connection cannot read: {error}"

    # --- what is compared ---------------------------------------------------------------------------------------------

    def _check_hooks(self, op: Op, before: State, glimpses: list[Glimpse]) -> None:
        due = lease.hooks_reached(before, op)
        self._agree(op, hooks_differ([glimpse.hook for glimpse in glimpses], due))
        changed, _ = lease.step(before, op.op if isinstance(op, Crash | Blocked) else op)
        for hook, glimpse in zip(due, glimpses, strict=True):
            self._check_glimpse(op, hook, glimpse, changed if hook.kept else before)

    def _check_glimpse(self, op: Op, hook: Hook, glimpse: Glimpse, want: State) -> None:
        self._agree(op, commit_misplaced(hook, glimpse.in_transaction))
        rows = glimpse.rows
        if difference := rows if isinstance(rows, str) else differences(ranked(rows), want):
            self._fail(op, f"shows to another connection, at {hook.name}: {difference}")

    def _check_rows(self, op: Op) -> None:
        rows = self._look()
        if isinstance(rows, str):
            self._fail(op, f"leaves the file so that {rows}")
        if difference := differences(ranked(rows), self.state):
            self._fail(op, f"leaves {difference}")
        old, self._seqs = self._seqs, seqs_of(rows)
        self._agree(op, renumbered(old, self._seqs))

    def _agree(self, op: Op, difference: str) -> None:
        if difference:
            self._fail(op, difference)

    def _fail(self, op: Op, what: str) -> NoReturn:
        raise Violation(f"{source(op)} {what}", program(self.lines))
