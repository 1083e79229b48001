"""One experiment: prepare a file, kill a process in a fault hook, and let a fresh connection say what it left."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from chaos.child import Word
from chaos.deaths import SMALL_PAGES, retold, stand_in
from chaos.files import Files
from chaos.forks import Server, forked
from chaos.killer import Deadly, Unanswered, Victim, hear, kill, started
from chaos.matrix import Experiment
from chaos.prepared import Differs, opened
from chaos.sequels import sequel
from chaos.shelf import Shelf
from model.contract import Odd, Reopen, Return
from model.counterexample import Line, Rows, Violation, differences, program, reply_differs, source
from model.port import Subject, connect, perform


def check(
    experiment: Experiment,
    subject: Subject[Any, Any],
    module: Path,
    did: Counter[str],
    server: Server | None = None,
    shelf: Shelf | None = None,
) -> None:
    """Kill one process; what it was doing is lost whole or kept whole, as its hook says, and the file lives on.

    The process comes from ``server``, or else is a fresh interpreter. Void, Unanswered, or a Violation with the
    program that leads there.
    """
    before, (lost, kept) = experiment.before(), experiment.outcomes()
    want = kept if experiment.hook.kept else lost
    trial = Trial(experiment, subject)
    shelf = shelf or Shelf()
    trial.prepare_once(before, shelf)
    with victim(experiment, subject, module, server) as child:
        trial.judge(hear(child), experiment.calls(before))
        standing = look(subject, writing=experiment.hook.kept)
        kill(child)
    did["processes killed"] += 1
    did["kept" if experiment.hook.kept else "lost"] += 1
    if server is not None:
        did["forked"] += 1
    if experiment.tight:
        did["journals rolled back"] += isinstance(standing, str)
    left = (experiment.change, want), Files.of(subject.path)
    if left in shelf.sound:
        trial.compare_standing(standing, want)
    else:
        trial.autopsy(standing, want)
        shelf.sound.append(left)


def victim(
    experiment: Deadly, subject: Subject[Any, Any], module: Path, server: Server | None
) -> AbstractContextManager[Victim]:
    """The process that will stand still, from ``server`` or else a fresh interpreter; dead when the context ends."""
    if server is None:
        return started(experiment, subject, module)
    return forked(server, experiment, subject, module)


# --- the file ---------------------------------------------------------------------------------------------------------


def look(subject: Subject[Any, Any], *, writing: bool = False, whole: bool = False) -> Rows | str:
    """What a fresh connection sees, or why it sees nothing; ``writing``: it must get the write lock, too.

    ``whole``: SQLite must find the file undamaged, too.
    """
    with looking(subject) as sees:
        return sees(writing=writing, whole=whole)


def differences_at(subject: Subject[Any, Any], want: Any, *, writing: bool = False) -> str:  # noqa: ANN401 - its rows
    """The first row that differs, or why the file cannot be read, or written; empty where all is well."""
    seen = look(subject, writing=writing)
    return seen if isinstance(seen, str) else differences(seen, want)


@contextlib.contextmanager
def looking(subject: Subject[Any, Any]) -> Iterator[Callable[..., Rows | str]]:
    """``look``, each time over the same connection, which is fresh now."""
    try:
        con = connect(subject.path, 0)
    except sqlite3.Error as error:
        problem = f"another connection cannot read: {error}"
        yield lambda **_: problem
        return
    with contextlib.closing(con):
        yield functools.partial(_seen, subject, con)


def _seen(
    subject: Subject[Any, Any], con: sqlite3.Connection, *, writing: bool = False, whole: bool = False
) -> Rows | str:
    may = "read"
    try:
        rows = subject.ranked(subject.observe(con))
        if whole and (problem := _damage(con)):
            return problem
        if writing:
            may = "write"
            con.execute("BEGIN IMMEDIATE").close()
            con.execute("ROLLBACK").close()
    except sqlite3.Error as error:
        return f"another connection cannot {may}: {error}"
    return rows


def _damage(con: sqlite3.Connection) -> str:
    rows = con.execute("PRAGMA integrity_check").fetchall()
    return "" if rows == [("ok",)] else f"PRAGMA integrity_check says {'; '.join(str(row[0]) for row in rows)}"


# --- the trial --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment on one file; ``lines`` grow into the program that a Violation shows."""

    experiment: Experiment
    subject: Subject[Any, Any]
    lines: list[Line] = field(default_factory=list)

    def prepare_once(self, want: Rows, shelf: Shelf) -> None:
        """``prepare``, or a copy of what that left for the same setup."""
        key = (self.experiment.setup, self.experiment.tight)
        if shelf.copy(key, self.subject.path):
            self.lines.extend(shelf.found)
            return
        self.prepare(want)
        shelf.keep(key, self.subject.path, tuple(self.lines))

    def prepare(self, want: Rows) -> None:
        """Perform the setup in this process; replies and rows must be the model's."""
        self._set_up(self.experiment.setup, self.subject.model.EMPTY)
        self._compare(look(self.subject), want, "before SIGKILL in")
        if self.experiment.tight:
            with contextlib.closing(connect(self.subject.path)) as con:
                for sql in SMALL_PAGES:
                    con.execute(sql).close()

    def _set_up(self, ops: tuple[Any, ...], state: Any) -> None:  # noqa: ANN401 - the model's
        """Each ``Reopen`` among the operations closes the connection and opens another."""
        now = ops.index(Reopen()) if Reopen() in ops else len(ops)
        with self._open() as con:
            for op in ops[:now]:
                state = self._step(con, op, state)
        if now < len(ops):
            self.lines.append(Line(Reopen(), 1, Return(None)))
            self._set_up(ops[now + 1 :], state)

    def judge(self, word: Word, calls: list[str]) -> None:
        """The process must stand in the hook, and have called just the hooks before it."""
        if word.what == "unloaded":
            raise Unanswered(word.text)
        self.lines.append(self._dying(word.text or "killed"))
        if word.what == "stands" and list(word.called) == calls:
            return
        function, hook = source(self.experiment.op).partition("(")[0], self.experiment.hook.name
        is_hook, kind = self.experiment.in_hook, self.subject.kind
        if word.what == "unopened":
            self._fail("on the way to", f"{kind.name}.{kind.opener} raises {word.text}, in another process")
        if word.what == "ended":
            self._fail("on the way to", f"{function} {word.text}, never {'called' if is_hook else 'came to'} {hook}")
        does, must = ("calls", "call") if is_hook else ("reaches", "reach")
        self._fail("on the way to", f"{function} {does} {', '.join(word.called)}, must {must} {', '.join(calls)}")

    def autopsy(self, standing: Rows | str, want: Rows) -> None:
        """What the process left, and what could be seen already while it stood: this and nothing else.

        Then the file lives on, before the eyes of the same onlooker.
        """
        if self.experiment.tight:
            with self._open():
                self.lines.append(Line(Reopen(), 1, Return(None)))
        with looking(self.subject) as sees:
            self._compare(sees(whole=True), want, "after SIGKILL in")
            self.compare_standing(standing, want)
            state = self._live_on(want)
            self._compare(sees(), state, "two operations after SIGKILL in")

    def compare_standing(self, standing: Rows | str, want: Rows) -> None:
        """While the process stands its rows can be read as well, unless its change is in the file already."""
        if not self.experiment.tight:
            self._compare(standing, want, "while its process stood in")

    def _live_on(self, state: Any) -> Any:  # noqa: ANN401 - the model's
        """The same operation once more, then something by somebody else: all as if nobody had died."""
        with self._open() as con:
            for op in sequel(self.subject.kind, state, self.experiment.change):
                state = self._step(con, op, state)
        return state

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with opened(self.subject) as con:
                yield con
        except Differs as problem:
            self._fail(self._when, str(problem))

    def _step(self, con: sqlite3.Connection, op: Any, state: Any) -> Any:  # noqa: ANN401 - the model's words
        state, want = self.subject.model.step(state, op)
        got = perform(self.subject, con, op)
        when = self._when
        self.lines.append(Line(op, 1, got))
        if difference := reply_differs(op, got, want):
            self._fail(when, f"{source(op)} {difference}")
        return state

    @property
    def _when(self) -> str:
        return "after SIGKILL in" if len(self.lines) > len(self.experiment.setup) else "before SIGKILL in"

    def _dying(self, end: str) -> Line:
        return Line(stand_in(self.experiment), 1, Return(Odd(end)))

    def _compare(self, seen: Rows | str, want: Rows, when: str) -> None:
        if difference := seen if isinstance(seen, str) else differences(seen, want):
            self._fail(when, difference)

    def _fail(self, when: str, what: str) -> NoReturn:
        where = f"{when} {self.experiment.hook.name} ({self.experiment.scene})"
        raise Violation(f"{where}: {what}", retold(program(self.lines, self.subject.kind), self.experiment))
