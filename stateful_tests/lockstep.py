"""Run the same operations on the model and on a real queue file, and stop at the first difference."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from model import lease
from model.contract import LOCKED, Blocked, Crash, Hook, Op, Raise, Reopen, Reply, Return, State
from model.counterexample import Line, Violation, differences, program, show, source
from model.port import Queue, Worker, connect, observe, one_line, perform, ranked


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
        self._seqs: tuple[list[int], ...] = ([], [])
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
        self._check_reply(op, got, want)
        self._check_hooks(op, before, glimpses)
        if self._cons[con].in_transaction:
            self._fail(op, "leaves a transaction open on its connection")
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
        """``open_queue``, which has no reason to refuse here: whatever it raises is its own fault."""
        try:
            return self.queue.worker.open_queue(self.queue.path)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            raise Violation(f"worker.open_queue raises {one_line(error)}", program(self.lines)) from None

    def _look(self) -> State | str:
        """What another connection sees, or why it cannot read."""
        try:
            return observe(self._observer)
        except sqlite3.Error as error:
            return f"another connection cannot read: {error}"

    # --- what is compared ---------------------------------------------------------------------------------------------

    def _check_reply(self, op: Op, got: Reply, want: Reply) -> None:
        """Under a reader's lock an operation that has nothing to change may fail all the same: legal (T7)."""
        if got == want or (isinstance(op, Blocked) and got == LOCKED):
            return
        does = show(got) if isinstance(got, Raise) else f"returns {show(got)}"
        must = want.error if isinstance(want, Raise) else show(want)
        self._fail(op, f"{does}, must {'raise' if isinstance(want, Raise) else 'return'} {must}")

    def _check_hooks(self, op: Op, before: State, glimpses: list[Glimpse]) -> None:
        due = lease.hooks_reached(before, op)
        called, must = [glimpse.hook for glimpse in glimpses], [hook.name for hook in due]
        if called != must:
            self._fail(op, f"calls {', '.join(called) or 'no hook'}, must call {', '.join(must) or 'no hook'}")
        changed, _ = lease.step(before, op.op if isinstance(op, Crash | Blocked) else op)
        for hook, glimpse in zip(due, glimpses, strict=True):
            self._check_glimpse(op, hook, glimpse, changed if hook.kept else before)

    def _check_glimpse(self, op: Op, hook: Hook, glimpse: Glimpse, want: State) -> None:
        if glimpse.in_transaction == hook.kept:
            self._fail(op, f"calls {hook.name} {'before' if hook.kept else 'after'} its COMMIT")
        rows = glimpse.rows
        if difference := rows if isinstance(rows, str) else differences(ranked(rows), want):
            self._fail(op, f"shows to another connection, at {hook.name}: {difference}")

    def _check_rows(self, op: Op) -> None:
        rows = self._look()
        if isinstance(rows, str):
            self._fail(op, f"leaves the file so that {rows}")
        if difference := differences(ranked(rows), self.state):
            self._fail(op, f"leaves {difference}")
        seqs = [job.seq for job in rows.jobs], [audit.seq for audit in rows.redrives]
        for table, old, new in zip(("jobs", "redrives"), self._seqs, seqs, strict=True):
            if new[: len(old)] != old:
                self._fail(op, f"renumbers {table}: seq was {old}, is {new}")
        self._seqs = seqs

    def _fail(self, op: Op, what: str) -> NoReturn:
        raise Violation(f"{source(op)} {what}", program(self.lines))
