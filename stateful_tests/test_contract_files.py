"""open_queue: the tables where they are missing, the settings of the connection, and nothing left open on failure."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from model.contract import SCHEMA, Claim, Enqueue, Finish, Redrive, Return, Ticket
from model.port import connect, fetched, one_line
from model.queue import Queue, Worker
from stateful_tests.clauses import DOOMED, STATUSES, follow
from stateful_tests.files import TO_THE_LETTER, UNEXPANDED, file_size, make, master, must_close, names_a_file
from stateful_tests.guard import QueueGuard
from stateful_tests.lockstep import Lockstep
from stateful_tests.options import Profile
from stateful_tests.test_contract_claim import SELECT

pytestmark = pytest.mark.layer("contract")

SETTINGS = {"journal_mode": "delete", "synchronous": 2, "busy_timeout": 1000}


def check_schema(queue: QueueGuard, path: Path) -> None:
    """The two tables, word for word, and no other."""
    held = {name: words(sql or "") for kind, name, sql in master(path) if kind == "table"}
    queue.expect(held.keys() == SCHEMA.keys(), f"{queue.lines[-1]} leaves the tables {[*held]}, must leave {[*SCHEMA]}")
    for name, sql in SCHEMA.items():
        queue.expect(held[name] == words(sql), f"{queue.lines[-1]} makes {name} with other words than the contract's")


def words(sql: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", sql)


def bare(path: Path) -> bytes:
    return path.read_bytes()


# --- what it makes ----------------------------------------------------------------------------------------------------


def test_a_new_file_has_both_tables(queue: QueueGuard) -> None:
    check_schema(queue, queue.path)


def test_the_connection_has_its_settings(queue: QueueGuard) -> None:
    con = queue.open(queue.path)
    queue.expect(isinstance(con, sqlite3.Connection), f"{queue.lines[-1]} returns {con!r}, must return a Connection")
    level = con.isolation_level
    queue.expect(level is None, f"{queue.lines[-1]} has isolation_level {level!r}, must have None")
    queue.expect(not con.in_transaction, f"{queue.lines[-1]} leaves a transaction open")
    for name, must in SETTINGS.items():
        ((value,),) = fetched(con, f"PRAGMA {name}")
        queue.expect(value == must, f"{queue.lines[-1]} has {name} {value!r}, must have {must!r}")


def test_a_file_is_opened_again_byte_for_byte(queue: QueueGuard) -> None:
    queue.prepare((*STATUSES["dead"], (Redrive("a", 60, 100, "n"), True), *DOOMED))
    queue.do(Claim("w", 60, 1000))
    before, schema = bare(queue.path), master(queue.path)
    queue.open(queue.path)
    queue.expect(bare(queue.path) == before, f"{queue.lines[-1]} changes an existing queue file")
    queue.expect(master(queue.path) == schema, f"{queue.lines[-1]} changes the schema of an existing queue file")
    queue.must(Claim("x", 159), Return(None))


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_a_queue_that_someone_else_made_works(worker: Worker, tmp_path: Path, did: Counter[str], encoding: str) -> None:
    tables = (" ".join(table.split()) if encoding == "UTF-16be" else table for table in SCHEMA.values())
    path = make(tmp_path / "queue.db", f"PRAGMA encoding = '{encoding}'", *tables)
    schema = master(path)
    with Lockstep(Queue(worker, path), did) as pair:
        follow(pair, STATUSES["dead"])
        for op in (
            Redrive("a", 60, 100, "n"),
            Enqueue("b", 6, 60, 10),
            Claim("w", 60, 10),
            Claim("w", 70),
            Claim("w", 75),
        ):
            pair.do(op)
        pair.do(Finish(Ticket("a", 5, "w", 3, 2, 160), "ok", 76))
    with QueueGuard(worker, path, did) as queue:
        queue.expect(master(path) == schema, "a queue file made by someone else gets another schema, must keep its own")


@pytest.mark.parametrize("columns", ["status, available_at", "status, deadline", "status, lease_until", "id, status"])
def test_an_index_of_someone_else_changes_nothing(
    worker: Worker, tmp_path: Path, did: Counter[str], profile: Profile, columns: str
) -> None:
    for number, program in enumerate([*SELECT.values()][:: profile.every]):
        path = tmp_path / f"{number}.db"
        make(path, *SCHEMA.values(), f"CREATE INDEX someone_elses ON jobs ({columns})")
        with Lockstep(Queue(worker, path), did, connections=2) as pair:
            follow(pair, program)


@pytest.mark.parametrize("table", SCHEMA)
def test_a_missing_table_is_added(queue: QueueGuard, table: str) -> None:
    path = make(queue.path.with_name("half.db"), SCHEMA[table])
    queue.open(path)
    check_schema(queue, path)


@pytest.mark.parametrize("table", SCHEMA)
def test_a_table_that_gets_lost_is_added_each_time(queue: QueueGuard, table: str) -> None:
    for _ in range(2):
        queue.other.execute(f"DROP TABLE {table}").close()
        queue.lines.append(f"# ... and somebody else drops the table {table}")
        queue.open(queue.path)
        check_schema(queue, queue.path)


def test_rows_survive_a_missing_table(queue: QueueGuard) -> None:
    row = "INSERT INTO redrives (id, token, at_ms, note) VALUES ('a', 1, 2, 'n')"
    path = make(queue.path.with_name("half.db"), SCHEMA["redrives"], row)
    con = queue.open(path)
    kept = fetched(con, "SELECT seq, id, token, at_ms, note FROM redrives")
    queue.expect(kept == [(1, "a", 1, 2, "n")], f"{queue.lines[-1]} leaves the audit rows {kept}")


@pytest.mark.parametrize("name", TO_THE_LETTER)
def test_a_path_is_taken_to_the_letter(queue: QueueGuard, name: str) -> None:
    folder = queue.path.parent / "folder"
    folder.mkdir()
    queue.open(folder / name)
    there = [path.name for path in folder.iterdir()]
    queue.expect(there == [name], f"{queue.lines[-1]} makes {there!a}, must make {name!a}")


@pytest.mark.parametrize("name", UNEXPANDED)
def test_a_path_is_not_expanded(queue: QueueGuard, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    names_a_file(queue, "open_queue", monkeypatch, name)


def test_a_str_and_a_path_object_are_paths(queue: QueueGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(queue.path.parent)

    class Named:
        def __fspath__(self) -> str:
            return "queue.db"

    queue.do(Enqueue("a", 5, 0, 50_000))
    paths: list[Any] = [str(queue.path), queue.path, "queue.db", "./queue.db", Path("queue.db"), Named()]
    for path in paths:
        (rows,) = fetched(queue.open(path), "SELECT count(*) FROM jobs")
        queue.expect(rows == (1,), f"{queue.lines[-1]} opens another file, must open queue.db")


# --- others at the same time ------------------------------------------------------------------------------------------


def test_opening_waits_for_no_lock(queue: QueueGuard) -> None:
    """It must succeed while the write lock is held: nobody lets go of it before."""
    queue.other.execute("BEGIN IMMEDIATE").close()
    queue.lines.append('# another connection: execute("BEGIN IMMEDIATE")')
    con = queue.open(queue.path)
    queue.other.execute("ROLLBACK").close()
    check_schema(queue, queue.path)
    queue.expect(not con.in_transaction, f"{queue.lines[-1]} leaves a transaction open")


def test_opening_beside_a_reader_succeeds(queue: QueueGuard) -> None:
    queue.other.execute("BEGIN").close()
    queue.other.execute("SELECT count(*) FROM jobs").fetchall()
    queue.open(queue.path)
    queue.other.execute("ROLLBACK").close()


@pytest.mark.parametrize("holders", [0, 1], ids=["closed", "held open"])
def test_no_file_stays_in_wal_unsaid(queue: QueueGuard, holders: int) -> None:
    path = make(queue.path.with_name("wal.db"), "PRAGMA journal_mode = WAL", *SCHEMA.values())
    with contextlib.ExitStack() as stack:
        for _ in range(holders):
            holder = stack.enter_context(contextlib.closing(connect(path)))
            holder.execute("SELECT count(*) FROM jobs").fetchall()
        con, error = queue.attempt("open_queue", path)
        mode = None if error else fetched(con, "PRAGMA journal_mode")[0][0]
        queue.expect(error or mode == "delete", f"{queue.lines[-1]} leaves journal_mode {mode!r}, must not")
        if con is not None:
            con.close()


# --- failing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 4096])
def test_what_is_no_database_is_closed(queue: QueueGuard, size: int) -> None:
    path = queue.path.with_name("text.db")
    path.write_bytes(b"no database " * size)
    before = bare(path)
    must_close(queue, path, sqlite3.Error)
    queue.expect(bare(path) == before, f"{queue.lines[-1]} changes a file that is no database")


def test_a_folder_is_no_queue(queue: QueueGuard) -> None:
    must_close(queue, queue.path.parent, sqlite3.Error, OSError)


def test_both_tables_are_made_or_none(queue: QueueGuard) -> None:
    """The disk is full after so many pages: whether that is enough depends on the indexes."""
    for pages in range(1, 16):
        path = queue.path.with_name(f"{pages}.db")
        queue.watched = path
        with file_size(4096 * pages):
            con, error = queue.attempt("open_queue", path)
        if error is None:
            con.close()
            check_schema(queue, path)
            continue
        queue.expect(isinstance(error, sqlite3.Error), f"on a full disk {queue.lines[-1]} raises {one_line(error)}")
        queue.expect(not queue.kept_open, f"{queue.lines[-1]} raises on a full disk and leaves the file open")
        tables = [name for _, name, _ in master(path)] if path.exists() else []
        queue.expect(not tables, f"{queue.lines[-1]} fails on a full disk and leaves {tables}, must leave nothing")
