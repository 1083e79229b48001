"""run_file: only on a queue file that is there, and on a connection of its own that it always closes."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from model.contract import SCHEMA, Enqueue
from model.port import connect, one_line
from stateful_tests.files import make
from stateful_tests.guard import PLANTED_TEXT, QueueGuard, descriptors
from stateful_tests.lent import settings

pytestmark = pytest.mark.layer("contract")


def never(*_: object) -> int:
    """A clock and a send that must not be called."""
    raise RuntimeError("called without a queue file")


# --- no queue file ----------------------------------------------------------------------------------------------------


def missing(folder: Path) -> Path:
    return folder / "missing.db"


def in_a_missing_folder(folder: Path) -> Path:
    return folder / "missing" / "queue.db"


def a_directory(folder: Path) -> Path:
    (folder / "queue.db").mkdir()
    return folder / "queue.db"


def a_dangling_link(folder: Path) -> Path:
    (folder / "link.db").symlink_to(folder / "missing.db")
    return folder / "link.db"


def a_link_to_a_directory(folder: Path) -> Path:
    (folder / "link.db").symlink_to(folder.parent)
    return folder / "link.db"


def an_empty_file(folder: Path) -> Path:
    (folder / "empty.db").touch()
    return folder / "empty.db"


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def below_a_file(folder: Path) -> Path:
    (folder / "queue.db").write_bytes(b"x")
    return folder / "queue.db" / "queue.db"


def a_link_to_itself(folder: Path) -> Path:
    (folder / "link.db").symlink_to(folder / "link.db")
    return folder / "link.db"


NO_FILES = {
    make.__name__.replace("_", " "): make
    for make in (
        missing,
        in_a_missing_folder,
        a_directory,
        a_dangling_link,
        a_link_to_a_directory,
        an_empty_file,
        a_pipe,
        below_a_file,
        a_link_to_itself,
    )
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_queue_file_is_refused(queue: QueueGuard, kind: str) -> None:
    folder = queue.path.parent / "folder"
    folder.mkdir()
    path = NO_FILES[kind](folder)
    before = listing(folder)
    for name in (path, str(path)):
        queue.refused(FileNotFoundError, "run_file", name, "w", never, never, 0.5)
        queue.expect(listing(folder) == before, f"{queue.lines[-1]} changes the folder to {listing(folder)}")


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.lstat().st_size) for path in folder.iterdir())


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_memory_is_no_queue_file(queue: QueueGuard, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (queue.path.parent / "folder").mkdir()
    monkeypatch.chdir(queue.path.parent / "folder")
    _, error = queue.attempt("run_file", path, "w", never, never, 0.5)
    right = isinstance(error, FileNotFoundError | ValueError)
    queue.expect(right, f"{queue.lines[-1]} must raise FileNotFoundError")
    queue.expect(not listing(Path()), f"{queue.lines[-1]} creates {listing(Path())}")


def test_a_link_to_a_queue_file_works(queue: QueueGuard) -> None:
    queue.do(Enqueue("a", 5, 0, 50_000))
    link = queue.path.with_name("link.db")
    link.symlink_to(queue.path)
    ran = queue.call("run_file", link, "w", lambda: 0, lambda _: True, 0.5)
    must = {"id": "a", "token": 1, "status": "done"}
    queue.expect(ran == must, f"{queue.lines[-1]} returns {ran!r}, must return {must!r}")


# --- its connection ---------------------------------------------------------------------------------------------------


class Keeper:
    """Keeps alive whatever connection there is when the clock is read, so that only ``close`` can close it."""

    def __init__(self, *readings: object) -> None:
        self.readings = iter(readings)
        self.there = {id(con) for con in connections()}
        self.kept: list[sqlite3.Connection] = []

    def clock(self) -> object:
        self.kept += [con for con in connections() if id(con) not in self.there]
        reading = next(self.readings)
        if isinstance(reading, BaseException):
            raise reading
        return reading


def connections() -> list[sqlite3.Connection]:
    return [thing for thing in gc.get_objects() if isinstance(thing, sqlite3.Connection)]


ENDS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "success": ((0, 1), True),
    "no job": ((-1, -1), None),
    "a bad ack": ((0, 1), 1),
    "an error of send": ((0, 1), Exception(PLANTED_TEXT)),
    "an interrupt of send": ((0, 1), KeyboardInterrupt(PLANTED_TEXT)),
    "an exit of send": ((0, 1), SystemExit(PLANTED_TEXT)),
    "a clock that goes back": ((1, 0), True),
    "a clock of the wrong form": ((0.0,), True),
    "an error of the clock": ((Exception(PLANTED_TEXT),), True),
    "an interrupt of the second clock": ((0, KeyboardInterrupt(PLANTED_TEXT)), True),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_connection_is_closed_after(queue: QueueGuard, end: str) -> None:
    readings, answer = ENDS[end]
    if end != "no job":
        queue.do(Enqueue("a", 5, 0, 50_000))
    keeper = Keeper(*([0, 1] if end == "no job" else readings))

    def send(_: object) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    held = descriptors(queue.path)
    _, error = queue.attempt("run_file", queue.path, "w", keeper.clock, send, 0.5)
    planted = next((thing for thing in (*readings, answer) if isinstance(thing, BaseException)), None)
    if planted is not None:
        queue.expect(error is planted, f"{queue.lines[-1]} raises {error!r}, must raise the very error it was given")
    queue.expect(descriptors(queue.path) == held, f"{queue.lines[-1]} leaves the file open after {end}")


@pytest.mark.parametrize(("place", "value"), [("owner", ""), ("jitter", 2), ("lease_ms", 0)])
def test_the_connection_is_closed_after_a_refusal(queue: QueueGuard, place: str, value: object) -> None:
    arguments = {"owner": "w", "clock": lambda: 0, "send": never, "jitter": 0.5, "lease_ms": 1, place: value}
    queue.watched, held = queue.path, descriptors(queue.path)
    error = queue.refused(ValueError, "run_file", queue.path, *arguments.values())
    queue.expect(queue.kept_open == held, f"{queue.lines[-1]} raises {one_line(error)} and leaves the file open")


def test_what_is_no_database_is_closed(queue: QueueGuard) -> None:
    path = queue.path.with_name("text.db")
    path.write_bytes(b"no database " * 4096)
    queue.watched = path
    error = queue.refused(sqlite3.Error, "run_file", path, "w", never, never, 0.5)
    queue.expect(not queue.kept_open, f"{queue.lines[-1]} raises {one_line(error)} and leaves the file open")


# --- its connection is one of open_queue's ----------------------------------------------------------------------------


SETTINGS = {"journal_mode": "delete", "synchronous": 2, "busy_timeout": 1000}


def test_its_connection_is_set_as_open_queue_sets_it(queue: QueueGuard) -> None:
    held: list[dict[str, object]] = []

    class Looking(Keeper):
        def clock(self) -> object:
            reading = super().clock()
            for con in self.kept:
                with contextlib.suppress(sqlite3.ProgrammingError):  # it is closed
                    held.append({name: value for name, value in settings(con).items() if name in SETTINGS})
            return reading

    queue.call("run_file", queue.path, "w", Looking(0).clock, never, 0.5)
    queue.expect(held == [SETTINGS], f"{queue.lines[-1]} runs with {held}, must run with {SETTINGS} as open_queue does")


def test_a_missing_table_is_added(queue: QueueGuard) -> None:
    queue.other.execute("DROP TABLE redrives").close()
    queue.lines.append("# ... and somebody else drops the table redrives")
    queue.call("run_file", queue.path, "w", lambda: 0, never, 0.5)
    there = queue.other.execute("SELECT count(*) FROM sqlite_master WHERE name = 'redrives'").fetchone()
    queue.expect(there == (1,), f"{queue.lines[-1]} leaves the table redrives missing, must make it as open_queue does")


def test_no_file_stays_in_wal_unsaid(queue: QueueGuard) -> None:
    path = make(queue.path.with_name("wal.db"), "PRAGMA journal_mode = WAL", *SCHEMA.values())
    _, error = queue.attempt("run_file", path, "w", lambda: 0, never, 0.5)
    with contextlib.closing(connect(path)) as con:
        mode = con.execute("PRAGMA journal_mode").fetchone()[0]
    queue.expect(error or mode == "delete", f"{queue.lines[-1]} leaves journal_mode {mode!r}, must not")
