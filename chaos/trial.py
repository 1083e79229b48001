"""One experiment: prepare a queue, kill a process in a fault hook, and let a fresh connection say what it left."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from chaos.child import Word
from chaos.deaths import SMALL_PAGES, retold, stand_in
from chaos.experiments import Experiment, free_at, replay
from chaos.forks import Server, forked
from chaos.killer import Deadly, Unanswered, Victim, hear, kill, started
from model import lease
from model.contract import FAULT_HOOKS, Claim, Odd, Plain, Reopen, Return, State
from model.counterexample import Line, Violation, differences, program, show, source
from model.port import connect, one_line, perform
from model.queue import Queue, observe, ranked


@dataclass(slots=True)
class Shelf:
    """The queue file that was prepared last: the next experiment with the same setup starts from a copy of it."""

    key: tuple[object, ...] = ()
    content: bytes = b""
    lines: tuple[Line, ...] = ()


def check(
    experiment: Experiment,
    queue: Queue,
    module: Path,
    did: Counter[str],
    server: Server | None = None,
    shelf: Shelf | None = None,
) -> None:
    """Kill one process; what it was doing is lost whole or kept whole, as its hook says, and the queue lives on.

    The process comes from ``server``, or else is a fresh interpreter. Void, Unanswered, or a Violation with the
    program that leads there.
    """
    before, (lost, kept) = replay(experiment.setup), experiment.outcomes()
    want = kept if experiment.hook.kept else lost
    trial = Trial(experiment, queue)
    trial.prepare_once(before, shelf or Shelf())
    with victim(experiment, queue, module, server) as child:
        trial.judge(hear(child), experiment.calls(before))
        standing = look(queue.path, writing=experiment.hook.kept)
        kill(child)
    did["processes killed"] += 1
    did["kept" if experiment.hook.kept else "lost"] += 1
    if server is not None:
        did["forked"] += 1
    if experiment.tight:
        did["journals rolled back"] += isinstance(standing, str)
    trial.autopsy(standing, want)
    trial.live_on(want)


def victim(experiment: Deadly, queue: Queue, module: Path, server: Server | None) -> AbstractContextManager[Victim]:
    """The process that will stand still, from ``server`` or else a fresh interpreter; dead when the context ends."""
    if server is None:
        return started(experiment, queue, module)
    return forked(server, experiment, queue, module)


# --- the queue --------------------------------------------------------------------------------------------------------


def look(path: Path, *, writing: bool = False, whole: bool = False) -> State | str:
    """What a fresh connection sees, or why it sees nothing; ``writing``: it must get the write lock, too.

    ``whole``: SQLite must find the file undamaged, too.
    """
    may = "read"
    try:
        with contextlib.closing(connect(path)) as con:
            con.execute("PRAGMA busy_timeout = 0").close()
            rows = ranked(observe(con))
            if whole and (problem := _damage(con)):
                return problem
            if writing:
                may = "write"
                con.execute("BEGIN IMMEDIATE").close()
                con.execute("ROLLBACK").close()
            return rows
    except sqlite3.Error as error:
        return f"another connection cannot {may}: {error}"


def damage(path: Path) -> str:
    """What SQLite itself finds wrong with the file; empty if nothing."""
    try:
        with contextlib.closing(connect(path)) as con:
            return _damage(con)
    except sqlite3.Error as error:
        return str(error)


def _damage(con: sqlite3.Connection) -> str:
    rows = con.execute("PRAGMA integrity_check").fetchall()
    return "" if rows == [("ok",)] else f"PRAGMA integrity_check says {'; '.join(str(row[0]) for row in rows)}"


# --- the trial --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment on one queue file; ``lines`` grow into the program that a Violation shows."""

    experiment: Experiment
    queue: Queue
    lines: list[Line] = field(default_factory=list)

    def prepare_once(self, want: State, shelf: Shelf) -> None:
        """``prepare``, or a copy of what that left for the same setup."""
        key = (self.experiment.setup, self.experiment.tight)
        if shelf.key == key:
            self.queue.path.write_bytes(shelf.content)
            self.lines.extend(shelf.lines)
            return
        self.prepare(want)
        shelf.key, shelf.content, shelf.lines = key, self.queue.path.read_bytes(), tuple(self.lines)

    def prepare(self, want: State) -> None:
        """Perform the setup in this process; replies and rows must be the model's."""
        with self._open() as con:
            state = lease.EMPTY
            for op in self.experiment.setup:
                state = self._step(con, op, state)
        self._compare(look(self.queue.path), want, "before SIGKILL in")
        if self.experiment.tight:
            with contextlib.closing(connect(self.queue.path)) as con:
                for sql in SMALL_PAGES:
                    con.execute(sql).close()

    def judge(self, word: Word, calls: list[str]) -> None:
        """The process must stand in the hook, and have called just the hooks before it."""
        if word.what == "unloaded":
            raise Unanswered(word.text)
        self.lines.append(self._dying(word.text or "killed"))
        function, hook = source(self.experiment.op).partition("(")[0], self.experiment.hook.name
        is_hook = self.experiment.hook in FAULT_HOOKS
        if word.what == "unopened":
            self._fail("on the way to", f"worker.open_queue raises {word.text}, in another process")
        if word.what == "ended":
            self._fail("on the way to", f"{function} {word.text}, never {'called' if is_hook else 'came to'} {hook}")
        if list(word.called) != calls:
            does, must = ("calls", "call") if is_hook else ("reaches", "reach")
            self._fail("on the way to", f"{function} {does} {', '.join(word.called)}, must {must} {', '.join(calls)}")

    def autopsy(self, standing: State | str, want: State) -> None:
        """What the process left, and what could be seen already while it stood: this and nothing else."""
        if self.experiment.tight:
            with self._open():
                self.lines.append(Line(Reopen(), 1, Return(None)))
        self._compare(look(self.queue.path, whole=True), want, "after SIGKILL in")
        if not self.experiment.tight:
            self._compare(standing, want, "while its process stood in")

    def live_on(self, state: State) -> None:
        """The same operation once more, then a claim by somebody else: all as if nobody had died."""
        op = self.experiment.change
        with self._open() as con:
            state = self._step(con, op, state)
            state = self._step(con, Claim("next", free_at(state, op.now_ms)), state)
        self._compare(look(self.queue.path), state, "two operations after SIGKILL in")

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            con = self.queue.worker.open_queue(self.queue.path)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            self._fail(self._when, f"worker.open_queue raises {one_line(error)}")
        with contextlib.closing(con):
            yield con

    def _step(self, con: sqlite3.Connection, op: Plain, state: State) -> State:
        state, want = lease.step(state, op)
        got = perform(self.queue, con, op)
        when = self._when
        self.lines.append(Line(op, 1, got))
        if got != want:
            self._fail(when, f"{source(op)}: {show(got)}, must be {show(want)}")
        return state

    @property
    def _when(self) -> str:
        return "after SIGKILL in" if len(self.lines) > len(self.experiment.setup) else "before SIGKILL in"

    def _dying(self, end: str) -> Line:
        return Line(stand_in(self.experiment), 1, Return(Odd(end)))

    def _compare(self, seen: State | str, want: State, when: str) -> None:
        if difference := seen if isinstance(seen, str) else differences(seen, want):
            self._fail(when, difference)

    def _fail(self, when: str, what: str) -> NoReturn:
        where = f"{when} {self.experiment.hook.name} ({self.experiment.scene})"
        raise Violation(f"{where}: {what}", retold(program(self.lines), self.experiment))
