"""The queue file and its journal: put there, taken away as a pair, and looked at over a fresh connection."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from model.contract import SCHEMA, State
from model.counterexample import differences
from model.port import connect
from model.queue import observe, ranked

QUEUE: Final = "queue.db"
FILES: Final = (QUEUE, f"{QUEUE}-journal", f"{QUEUE}-wal")
"""Half of them is worth nothing: a database without its hot journal is torn, and passes every check of its own."""


class Left(NamedTuple):
    """All that a fresh connection finds: the schema as source text, the rows, ranked; or why it finds neither."""

    schema: tuple[str, ...] = ()
    rows: State = State()
    problem: str = ""

    def differs(self, want: Left) -> str:
        """What is wrong, in one line; empty if nothing."""
        if self.problem or self.schema == want.schema:
            return self.problem or differences(self.rows, want.rows)
        return f"the schema is {_names(self.schema)}, must be {_names(want.schema)}"


def _names(schema: Sequence[str]) -> str:
    return ", ".join(sql.split("(")[0].removeprefix("CREATE ").strip() for sql in schema) or "empty"


def look(path: Path, *, writing: bool = False) -> Left:
    """What a fresh connection finds, which rolls back a hot journal; ``writing``: it must get the write lock, too.

    No file is as good as an empty one.
    """
    if not path.exists():
        return Left()
    may = "read"
    try:
        with contextlib.closing(connect(path)) as con:
            con.execute("PRAGMA busy_timeout = 0").close()
            if (check := con.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                return Left(problem=f"PRAGMA integrity_check says {'; '.join(str(row[0]) for row in check)}")
            schema = tuple(sql for (sql,) in con.execute(_SCHEMA).fetchall())
            left = Left(schema, ranked(observe(con)) if set(SCHEMA.values()) <= set(schema) else State())
            if writing:
                may = "write"
                con.execute("BEGIN IMMEDIATE").close()
                con.execute("ROLLBACK").close()
            return left
    except sqlite3.Error as error:
        return Left(problem=f"another connection cannot {may}: {error}")


_SCHEMA: Final = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' AND sql IS NOT NULL ORDER BY name"


class Files(dict[str, bytes]):
    """The content of a queue's files by name."""

    @classmethod
    def of(cls, folder: Path) -> Files:
        return cls({name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()})

    def put(self, folder: Path) -> Path:
        """These files and no other into the folder; the path of the database."""
        folder.mkdir(exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        for name, content in self.items():
            (folder / name).write_bytes(content)
        return folder / QUEUE
