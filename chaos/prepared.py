"""A case before its fault: the setup is performed, and the model says what the operation may leave."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.files import Files, Left, look
from chaos.killer import Unanswered
from chaos.traced import Plain
from model.contract import Kind, Reopen, Reply
from model.counterexample import Line, Violation, opening, program, reply_differs, source
from model.port import Subject, connect, one_line, perform


@dataclass(frozen=True, slots=True)
class Case:
    """The operations that prepare a file, and the one that is then faulted; a ``Reopen`` is a call of the opener.

    ``sql`` is what another process has done after the setup. ``hot``: it has died before its COMMIT, and left a journal
    that must be rolled back. Without any setup there is no file, unless ``op`` needs one, or ``sql`` is to change it.
    ``idle``: the operation has nothing to change, and need not make any system call that could.
    """

    name: str
    setup: tuple[Plain, ...]
    op: Plain | Reopen
    sql: tuple[str, ...] = ()
    hot: bool = False
    idle: bool = False

    @property
    def on_a_file(self) -> bool:
        return bool(self.setup or self.sql) or not isinstance(self.op, Reopen)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case after its setup: the files to start from, and what the operation may leave of them.

    ``reply`` is what it must reply if it succeeds; ``lines`` are the setup.
    """

    case: Case
    subject: Subject[Any, Any]
    start: Files
    before: Left
    after: Left
    reply: Reply
    lines: Sequence[Line]

    @property
    def kind(self) -> Kind:
        return self.subject.kind

    @property
    def function(self) -> str:
        return function(self.kind, self.case.op)

    def program(self) -> list[str]:
        """The processes before the one with the fault."""
        if not self.case.on_a_file:
            return []
        sql = [f'con1.execute("{statement}")' for statement in self.case.sql]
        return [*_opened(self.lines, self.kind), *sql, *(["import os; os._exit(1)"] if self.case.hot else ())]


def function(kind: Kind, op: Plain | Reopen) -> str:
    """The name of the module's function that performs ``op``."""
    return kind.opener if isinstance(op, Reopen) else source(op).partition("(")[0].partition(".")[2]


def _opened(lines: Sequence[Line], kind: Kind) -> list[str]:
    return program(lines, kind) if lines else [f"import {kind.name}", f"con1 = {opening(kind)}"]


def prepare(case: Case, subject: Subject[Any, Any]) -> Prepared:
    """Perform the setup in this process; replies and rows must be the model's."""
    path = Files().put(subject.path)
    lines: list[Line] = []
    state = subject.model.EMPTY
    try:
        if case.on_a_file:
            with opened(subject) as con:
                for op in case.setup:
                    state = stepped(subject, lines, op, perform(subject, con, op), state)
        whole = look(subject, path)
        agree(whole.differs(Left(whole.schema, state)) if case.on_a_file else "")
        start = _changed(case, subject) if case.sql else Files.of(path)
        before = whole if case.hot else look(subject, path)
        with opened(subject):
            schema = look(subject, path).schema
    except Differs as problem:
        raise Violation(f"before any fault ({case.name}): {problem}", _opened(lines, subject.kind)) from None
    after, reply = subject.model.step(state, case.op)
    return Prepared(case, subject, start, before, Left(schema, after), reply, lines)


def _changed(case: Case, subject: Subject[Any, Any]) -> Files:
    """The files after another process's SQL; ``hot``: as it leaves them when it dies after a part has gone from the
    cache to the file.
    """
    whole = Files.of(subject.path)
    with contextlib.closing(connect(subject.path)) as con:
        for sql in case.sql:
            con.execute(sql).close()
        files = Files.of(subject.path)
    if files[""] == whole[""]:
        raise Unanswered(f"{case.name}: what somebody else has done is not in the file")
    return files


# --- what must agree --------------------------------------------------------------------------------------------------


class Differs(Exception):
    """The module did something else than the model; one line says what."""


def agree(difference: str) -> None:
    """Differs with these words, if there are any."""
    if difference:
        raise Differs(difference)


def stepped(
    subject: Subject[Any, Any],
    lines: list[Line],
    op: Plain,
    got: Reply,
    state: Any,  # noqa: ANN401 - the model's
) -> Any:  # noqa: ANN401
    """The model's state after ``op``, to which the module replied ``got``, and which is one line more."""
    state, want = subject.model.step(state, op)
    lines.append(Line(op, 1, got))
    difference = reply_differs(op, got, want)
    agree(difference and f"{source(op)} {difference}")
    return state


@contextlib.contextmanager
def opened(subject: Subject[Any, Any]) -> Iterator[sqlite3.Connection]:
    """A connection from the module's own opener in this process."""
    kind = subject.kind
    try:
        con = subject.open()
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - whatever it is, it is the module's
        raise Differs(f"{kind.name}.{kind.opener} raises {one_line(error)}") from None
    if not isinstance(con, sqlite3.Connection):
        raise Differs(f"{kind.name}.{kind.opener} returns {con!r}, must return a connection")
    with contextlib.closing(con):
        yield con
