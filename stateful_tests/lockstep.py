"""Run the same operations on the model and on a real queue file, and stop at the first difference."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, NamedTuple, NoReturn, Self, TypeVar

from model import steps
from model.contract import Hook, Reopen, Reply, Return, plain
from model.counterexample import Line, Op, Rows, Violation, differences, program, reply_differs, source
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


class Glimpse(NamedTuple):
    """What there was to see when a hook was called: the rows for another connection, the caller's transaction."""

    hook: str
    rows: Rows | str
    in_transaction: bool


class Transcript:
    """A running digest of programs: equal for two runs exactly if they performed and answered the same."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, lines: Sequence[object]) -> None:
        self._digest.update(repr(lines).encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()


S = TypeVar("S")
O = TypeVar("O", bound=Op)  # noqa: E741 - the operations, as S the states


class Lockstep(Generic[S, O]):
    """One file, several connections to it, and the model beside it.

    ``do`` performs an operation on both and compares the reply, the hooks reached, what another connection sees at each
    hook, every column of every row, and that no transaction is left open. The first difference is a Violation.
    """

    def __init__(self, subject: Subject[S, O], did: Counter[str], connections: int = 1) -> None:
        self.subject = subject
        self.state = subject.model.EMPTY
        self.did = did
        self.lines: list[Line] = []
        steps.program(subject.kind.name)
        self._taken: list[Taken] = []
        self._seqs = seqs_of(self.state)
        self._cons = {1: self._connect()}
        self._observer = connect(subject.path)
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

    def do(self, op: O, con: int = 1) -> Reply:
        """Perform ``op`` on connection number ``con`` and on the model; the reply they agree on."""
        before = self.state
        self.state, want = self.subject.model.step(before, op)
        glimpses: list[Glimpse] = []
        got = self._perform(op, con, glimpses)
        self.lines.append(Line(op, con, got))
        self._taken.append(Taken(got, want, self.state, None))
        self.did["operations compared"] += 1
        self._agree(op, reply_differs(op, got, want))
        self._check_hooks(op, before, glimpses)
        self._agree(op, transaction_left(self._cons[con]))
        self._check_rows(op)
        return got

    def _perform(self, op: O, con: int, glimpses: list[Glimpse]) -> Reply:
        steps.on(con)
        if isinstance(op, Reopen):
            steps.enter(op)
            self._cons[con].close()
            self._cons[con] = self._connect()
            steps.leave()
            return Return(None)

        def watch(hook: str) -> None:
            glimpses.append(Glimpse(hook, self._look(), self._cons[con].in_transaction))

        return perform(self.subject, self._cons[con], op, watch)

    def _connect(self) -> sqlite3.Connection:
        return opened(self.subject, self.lines)

    def _look(self) -> Rows | str:
        """What another connection sees, or why it cannot read."""
        try:
            return self.subject.observe(self._observer)
        except sqlite3.Error as error:
            return f"another connection cannot read: {error}"

    # --- what is compared ---------------------------------------------------------------------------------------------

    def _check_hooks(self, op: O, before: S, glimpses: list[Glimpse]) -> None:
        due = self.subject.model.hooks_reached(before, op)
        self._agree(op, hooks_differ([glimpse.hook for glimpse in glimpses], due))
        changed, _ = self.subject.model.step(before, plain(op))
        for hook, glimpse in zip(due, glimpses, strict=True):
            self._check_glimpse(op, hook, glimpse, changed if hook.kept else before)

    def _check_glimpse(self, op: O, hook: Hook, glimpse: Glimpse, want: S) -> None:
        self._agree(op, commit_misplaced(hook, glimpse.in_transaction))
        rows = glimpse.rows
        if difference := rows if isinstance(rows, str) else differences(self.subject.ranked(rows), want):
            self._took(want, rows)
            self._fail(op, f"shows to another connection, at {hook.name}: {difference}")

    def _check_rows(self, op: O) -> None:
        rows = self._look()
        self._took(self.state, rows)
        if isinstance(rows, str):
            self._fail(op, f"leaves the file so that {rows}")
        if difference := differences(self.subject.ranked(rows), self.state):
            self._fail(op, f"leaves {difference}")
        old, self._seqs = self._seqs, seqs_of(rows)
        self._agree(op, renumbered(old, self._seqs, list(self.subject.tables)))

    def _agree(self, op: O, difference: str) -> None:
        if difference:
            self._fail(op, difference)

    def _took(self, model: S, rows: Rows | str) -> None:
        """The rows that belong to the last step."""
        last = self._taken[-1]
        self._taken[-1] = Taken(last.got, last.want, model, rows)

    def _fail(self, op: O, what: str) -> NoReturn:
        if self._taken[-1].file is None:
            self._took(self.state, self._look())
        taken = [self.subject.kind.name, *(f"{line.con} {line.op!r}" for line in self.lines)]
        raise Violation(f"{source(op)} {what}", program(self.lines, self.subject.kind), taken, story=self._story)

    def _story(self) -> dict[str, Any]:
        told = [replace(step, file=self._ranked(step.file)) for step in self._taken]
        return story(told, self.subject.tables)

    def _ranked(self, rows: Rows | str | None) -> Rows | str | None:
        return rows if rows is None or isinstance(rows, str) else self.subject.ranked(rows)
