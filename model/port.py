"""The port: where the model's words meet a module under test.

One of the edges of this package, the rest of which is pure. It loads a file that promises one of the contracts and
performs operations on it; what a queue and a store do differently is in ``model.queue`` and ``model.store``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

from model import steps
from model.contract import (
    KINDS,
    LOCKED,
    PLANTED,
    REFUSED,
    Blocked,
    Crash,
    Hook,
    Kind,
    Odd,
    Raise,
    Ran,
    Reply,
    Return,
    Ticket,
    plain,
)

Fault = Callable[[str], None]

BEFORE_SQL: Final = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
"""A pattern, for DOTALL, of what may stand in front of an SQL statement."""
_FIRST_WORD: Final = re.compile(BEFORE_SQL + "([a-z]+)", re.IGNORECASE | re.DOTALL)

S = TypeVar("S")
O_contra = TypeVar("O_contra", contravariant=True)


class Model(Protocol[S, O_contra]):
    """A state machine: ``model.lease`` and ``model.stream`` are two."""

    @property
    def EMPTY(self) -> S: ...  # noqa: N802 - a constant
    def step(self, state: S, op: O_contra, /) -> tuple[S, Reply]: ...
    def hooks_reached(self, state: S, op: O_contra, /) -> tuple[Hook, ...]: ...


class Subject(Protocol[S, O_contra]):
    """A module under test, the file it works on, and the model that says what must come of it."""

    @property
    def kind(self) -> Kind: ...
    @property
    def path(self) -> Path: ...
    @property
    def module(self) -> object: ...
    @property
    def model(self) -> Model[S, O_contra]: ...
    @property
    def tables(self) -> Mapping[str, type[tuple[Any, ...]]]:
        """Each table and the NamedTuple that is one row of it."""

    def open(self) -> sqlite3.Connection:
        """A connection from the module's own opener."""

    def call(
        self,
        con: sqlite3.Connection,
        op: Any,  # noqa: ANN401 - one of the plain ones
        fault: Fault | None,
        planted: BaseException,
    ) -> object:
        """What the module's function returns for an operation that is neither crashed nor blocked."""

    def observe(self, con: sqlite3.Connection) -> S:
        """Every row in one consistent read; no cursor stays half-read."""

    def ranked(self, rows: S) -> S:
        """The rows as the model writes them."""


# --- loading ----------------------------------------------------------------------------------------------------------


class Unfit(Exception):
    """The file cannot be judged at all; the message is one line that says why."""


def load(path: str | os.PathLike[str], kind: Kind) -> Any:  # noqa: ANN401 - what the kind promises
    """Import the file at ``path``, wherever it lies, under a name of its own; Unfit with one line if it cannot."""
    file = Path(path).resolve()
    if not file.is_file():
        raise Unfit(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")
    spec = importlib.util.spec_from_file_location(f"judged_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise Unfit(f"{file}: not a Python source file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if problem := _import(module, spec.loader, kind):
        del sys.modules[spec.name]
        raise Unfit(f"{file}: {problem}")
    return module


def _import(module: ModuleType, loader: Loader, kind: Kind) -> str:
    """Run its code and ask for the names that it must have; why it cannot be judged, or nothing."""
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is the module's
        return f"does not import: {one_line(error)}"
    try:
        missing = [name for name in kind.functions if not callable(getattr(module, name, None))]
        missing += [name for name in kind.errors if not _is_error(getattr(module, name, None))]
    except Exception as error:  # noqa: BLE001 - as above
        return f"not a {kind.name} module: to ask for its names raises {one_line(error)}"
    return f"not a {kind.name} module: lacks {', '.join(missing)}" if missing else ""


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def first_word(statement: str) -> str:
    """What an SQL statement begins with, in capitals: comments may stand in front of it."""
    word = _FIRST_WORD.match(statement)
    return word[1].upper() if word else ""


def one_line(error: BaseException) -> str:
    """Type and text of an error, on one line, whatever the text."""
    where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(f"{type(error).__name__}: {text}{where}".split())


# --- performing an operation ------------------------------------------------------------------------------------------


class Planted(Exception):
    """What a fault hook or a send raises when it is told to: compared by identity, never by type."""


PLANTS: dict[str, type[BaseException]] = {
    "Exception": Planted,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "GeneratorExit": GeneratorExit,
}


def perform(
    subject: Subject[Any, Any],
    con: sqlite3.Connection,
    op: Any,  # noqa: ANN401 - an operation of the subject's contract, but a Reopen
    watch: Fault | None = None,
) -> Reply:
    """Run one operation on ``con`` and say what came of it; ``watch`` is called with the name of each hook reached.

    Every error of the module under test becomes a reply. An interrupt that was not planted passes through.
    """
    planted = PLANTS[op.error if isinstance(op, Crash) else "Exception"]("planted")
    steps.enter(op)
    try:
        with _surroundings(subject.path, con, op):
            return returned(subject.call(con, plain(op), _fault(op, watch, planted), planted))
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # noqa: BLE001 - each is a reply
        return raised(subject, error, planted)
    finally:
        steps.leave()


def _fault(op: object, watch: Fault | None, planted: BaseException) -> Fault | None:
    if watch is None and not isinstance(op, Crash):
        return None

    def fault(hook: str) -> None:
        if watch is not None:
            watch(hook)
        if isinstance(op, Crash) and hook == op.hook:
            raise planted

    return fault


@contextlib.contextmanager
def _surroundings(path: Path, con: sqlite3.Connection, op: object) -> Iterator[None]:
    """For a blocked operation: a reader that keeps its lock, and no waiting for it; otherwise nothing."""
    if not isinstance(op, Blocked):
        yield
        return
    with impatient(con), reading(path):
        yield


def returned(raw: object) -> Return:
    """``raw`` in the model's words; types are exact, so that 1 is never taken for True."""
    if raw is None or type(raw) is bool or type(raw) is bytes:
        return Return(raw)
    if isinstance(raw, str):
        return Return(_plain_text(raw))
    if type(raw) is dict and isinstance(raw.get("status"), str):
        raw = {**raw, "status": _plain_text(raw["status"])}
    for form in (Ticket, Ran):
        if type(raw) is dict and _has_form(raw, form):
            return Return(form(**raw))
    return Return(Odd(repr(raw)))


def _plain_text(status: str) -> str:
    """The text itself: a status may be a member of an enumeration."""
    return str.__str__(status)


def _has_form(raw: dict[Any, Any], form: type[Ticket | Ran]) -> bool:
    if set(raw) != set(form.__slots__):
        return False
    return all(type(raw[name]).__name__ == kind for name, kind in form.__annotations__.items())


def raised(subject: Subject[Any, Any], error: BaseException, planted: BaseException | None) -> Raise:
    """The error in the model's words; it loses its traceback, since a frame may hold a half-read cursor."""
    if isinstance(error, KeyboardInterrupt) and error is not planted:
        raise error
    error.__traceback__ = None
    if error is planted:
        return PLANTED
    names = {getattr(subject.module, name): name for name in subject.kind.errors}
    for nearest in type(error).__mro__:  # one of them may be a subclass of another
        if nearest in names:
            return Raise(names[nearest])
    if isinstance(error, ValueError):
        return REFUSED
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return LOCKED
    return Raise(one_line(error))


# --- looking from outside ---------------------------------------------------------------------------------------------


def connect(path: str | os.PathLike[str], timeout_s: float = 5) -> sqlite3.Connection:
    """A connection of the harness to an existing file: reads and writes, so that a hot journal is rolled back.

    It waits for a lock as long as ``timeout_s``.
    """
    name = os.path.abspath(path)  # noqa: PTH100 - to resolve it costs more than to open it, and SQLite follows links
    return sqlite3.connect(f"file:{quote(name)}?mode=rw", uri=True, timeout=timeout_s, isolation_level=None)


R = TypeVar("R", bound=tuple[Any, ...])


def rows(con: sqlite3.Connection, table: str, form: type[R]) -> tuple[R, ...]:
    """All rows of a table, a NamedTuple each, in the order of its first column; no cursor stays half-read."""
    columns: tuple[str, ...] = form._fields  # type: ignore[attr-defined]  # there is no bound for NamedTuples
    sql = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}"  # noqa: S608 - our names
    return tuple(form(*row) for row in fetched(con, sql))


def fetched(con: sqlite3.Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """What a connection answers, as plain tuples, whatever the rows are that its module has set."""
    with contextlib.closing(con.cursor()) as cursor:
        cursor.row_factory = None
        return cursor.execute(sql, values).fetchall()


@contextlib.contextmanager
def consistent(con: sqlite3.Connection) -> Iterator[None]:
    """All reads within see the same rows."""
    con.execute("BEGIN").close()
    try:
        yield
    finally:
        con.execute("ROLLBACK").close()


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Another connection holds its read lock for as long as the context lasts."""
    with contextlib.closing(connect(path)) as con:
        con.execute("BEGIN").close()
        con.execute("SELECT count(*) FROM sqlite_master").fetchall()
        yield
        con.execute("ROLLBACK").close()


@contextlib.contextmanager
def impatient(con: sqlite3.Connection) -> Iterator[None]:
    """``con`` does not wait for a lock, and waits as before afterwards."""
    ((waits_ms,),) = fetched(con, "PRAGMA busy_timeout")
    con.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        yield
    finally:
        con.execute(f"PRAGMA busy_timeout = {waits_ms}").fetchall()


def main() -> None:
    """Whether the file is a module of its kind: status 0 and a line on stdout, or 1 and one on stderr that says why.

    The process ends at once then, whatever the module has begun in it or done to its streams.
    """
    out, err = os.dup(1), os.dup(2)
    _, name, path = sys.argv
    try:
        load(path, KINDS[name])
    except Unfit as problem:
        os.write(err, f"{problem}\n".encode())
    except BaseException as error:  # noqa: BLE001 - as an interrupt that the module raises
        os.write(err, f"{path}: does not import: {one_line(error)}\n".encode())
    else:
        os.write(out, f"{path} is a {name} module\n".encode())
        os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main()
