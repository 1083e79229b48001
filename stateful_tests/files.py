"""Files as an opener may find them, a disk that is full, and what is open after it has failed."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model.port import connect, one_line
from stateful_tests.guard import Guard


def make(path: Path, *statements: str) -> Path:
    """A file that someone else made."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as con:
        for statement in statements:
            con.execute(statement).close()
    return path


TO_THE_LETTER = (
    *("a b.db", " a.db ", "A.DB", "100%41.db", "what?mode=ro", "one#two.db", "-.db"),
    *("\u00fc\u30ad\u30e5\u30fc.db", "u\u0308.db"),
)
"""Names that could be taken for others: for a URI, for an option, for one in another form of Unicode."""

UNEXPANDED = ("$HOME.db", "%TEMP%.db")
"""Names that a shell would make others of."""


def names_a_file(guard: Guard[Any, Any], opener: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The opener makes a file of just this name, or refuses it and makes none."""
    folder = guard.path.parent / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder / "home"))
    con, error = guard.attempt(opener, name)
    if error is None:
        con.close()
    there, must = [path.name for path in folder.iterdir()], [] if isinstance(error, ValueError) else [name]
    guard.expect(there == must, f"{guard.lines[-1]} makes {there}, must make a file of that name")


def master(path: Path) -> list[tuple[str, str, str | None]]:
    """Type, name and text of all that the schema holds, but for what SQLite keeps for itself."""
    with contextlib.closing(connect(path)) as con:
        rows = con.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid")
        return rows.fetchall()


@contextlib.contextmanager
def file_size(limit: int) -> Iterator[None]:
    """No file may grow beyond the limit (bytes); Python ignores the signal that comes with the error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def must_close(guard: Guard[Any, Any], path: Path, *kinds: type[Exception]) -> None:
    """The opener fails with one of these errors, and while the error is still alive nothing is open any more."""
    guard.watched = path
    _, error = guard.attempt(guard.subject.kind.opener, path)
    does = f"raises {one_line(error)}" if error else "returns"
    must = " or ".join(kind.__name__ for kind in kinds)
    guard.expect(isinstance(error, kinds), f"{guard.lines[-1]} {does}, must raise {must}")
    guard.expect(not guard.kept_open, f"{guard.lines[-1]} raises and leaves the file open")
