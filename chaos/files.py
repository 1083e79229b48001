"""The file under test and its journal: put there, taken away as a pair, and looked at over a fresh connection."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from model.counterexample import Rows, differences
from model.port import Subject, connect, consistent, rows

SUFFIXES: Final = ("", "-journal", "-wal")
"""Half of the files is worth nothing: a database without its hot journal is torn, and passes every check of its own."""


class Left(NamedTuple):
    """All that a fresh connection finds: the contract's tables and what belongs to them, by name, and the rows, ranked;
    or why it finds neither. A table that is not there has no rows.
    """

    schema: tuple[str, ...]
    rows: Rows
    problem: str = ""

    def differs(self, want: Left) -> str:
        """What is wrong, in one line; empty if nothing."""
        if self.problem or self.schema == want.schema:
            return self.problem or differences(self.rows, want.rows)
        return f"the schema is {_names(self.schema)}, must be {_names(want.schema)}"


def _names(schema: Sequence[str]) -> str:
    return ", ".join(schema) or "empty"


def nothing(subject: Subject[Any, Any]) -> Left:
    """What there is where there is no file."""
    return Left((), type(subject.model.EMPTY)(*((),) * len(subject.tables)))


def look(subject: Subject[Any, Any], path: Path, *, writing: bool = False) -> Left:
    """What a fresh connection finds, which rolls back a hot journal; ``writing``: it must get the write lock, too.

    ``path`` is that of the subject's file or of a copy. No file is as good as an empty one.
    """
    left = nothing(subject)
    if not path.exists():
        return left
    may = "read"
    try:
        with contextlib.closing(connect(path, 0)) as con:
            if (check := con.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                return left._replace(problem=f"PRAGMA integrity_check says {'; '.join(str(row[0]) for row in check)}")
            schema = _schema(con, subject)
            left = Left(schema, _rows(con, subject, schema))
            if writing:
                may = "write"
                con.execute("BEGIN IMMEDIATE").close()
                con.execute("ROLLBACK").close()
            return left
    except sqlite3.Error as error:
        return left._replace(problem=f"another connection cannot {may}: {error}")


def _schema(con: sqlite3.Connection, subject: Subject[Any, Any]) -> tuple[str, ...]:
    """The contract's tables and their indexes. What else a module keeps in its file is its own affair."""
    found = con.execute("SELECT type, name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return tuple(f"{form.upper()} {name}" for form, name, table in found.fetchall() if table in subject.tables)


def _rows(con: sqlite3.Connection, subject: Subject[Any, Any], schema: Sequence[str]) -> Rows:
    with consistent(con):
        tables = {table: form for table, form in subject.tables.items() if f"TABLE {table}" in schema}
        found = {table: rows(con, table, form) for table, form in tables.items()}
    return subject.ranked(nothing(subject).rows._replace(**found))


class Files(dict[str, bytes]):
    """The content of a database and its journals, by suffix."""

    @classmethod
    def of(cls, path: Path) -> Files:
        files = {suffix: path.with_name(path.name + suffix) for suffix in SUFFIXES}
        return cls({suffix: file.read_bytes() for suffix, file in files.items() if file.exists()})

    def put(self, path: Path) -> Path:
        """These files and no other where the database ``path`` is to lie; the path again."""
        path.parent.mkdir(exist_ok=True)
        for suffix in SUFFIXES:
            file = path.with_name(path.name + suffix)
            file.unlink(missing_ok=True)
            if suffix in self:
                file.write_bytes(self[suffix])
        return path
