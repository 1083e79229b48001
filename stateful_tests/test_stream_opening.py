"""open_store where it cannot have its way: locks, WAL, a full disk, no database; and several at the same moment."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from model.contract import CLIENT
from model.counterexample import differences
from model.events import State
from model.port import connect, fetched, one_line
from model.store import observe
from stateful_tests.files import file_size, make, master, must_close
from stateful_tests.guard import StoreGuard, descriptors, writing
from stateful_tests.opening import held, is_locked, open_at_once
from stateful_tests.stream_clauses import FIVE

pytestmark = pytest.mark.layer("contract")

CHECKPOINT = "CREATE TABLE checkpoint (id INTEGER PRIMARY KEY, last INTEGER, total INTEGER)"
LEDGER = "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, delta INTEGER)"
PROCESSES = 4
LOCKED = "database is locked"


# --- others at the same time ------------------------------------------------------------------------------------------


LOCKS = {
    "a reader": ("BEGIN", "SELECT count(*) FROM ledger"),
    "a writer": ("BEGIN IMMEDIATE",),
    "one who shuts all out": ("BEGIN EXCLUSIVE",),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_opening_beside_another_changes_nothing(store: StoreGuard, lock: str) -> None:
    """A lock is an answer here, and nothing stays open after it."""
    before = store.prepare(FIVE)
    store.watched = store.path
    mine = descriptors(store.path)
    with held(store.path, *LOCKS[lock]):
        store.lines.append(f"# another connection: {'; '.join(LOCKS[lock])}")
        con, error = store.attempt("open_store", store.path)
    if error is None:
        store.idle(con)
        con.close()
    else:
        right = isinstance(error, sqlite3.OperationalError) and LOCKED in str(error)
        store.expect(right, f"{store.lines[-1]} raises {one_line(error)}, must open the store or say that it is locked")
        store.expect(store.kept_open == mine, f"{store.lines[-1]} raises and leaves the file open")
    store.unchanged(before)


def test_tables_that_appear_meanwhile_are_kept(store: StoreGuard) -> None:
    path = store.path.with_name("new.db")
    moved = "INSERT INTO checkpoint (id, last, total) VALUES (1, 0, 7)"
    with writing(path, CHECKPOINT, LEDGER, moved, "INSERT INTO ledger (seq, delta) VALUES (0, 7)"):
        store.lines.append(f"# another connection to {path.name!r} has made a store with event 0, and commits in 0.1 s")
        con, error = store.attempt("open_store", path)
    if error is None:
        con.close()
    # How long it waits for a lock is its own choice.
    fine = error is None or LOCKED in str(error)
    store.expect(fine, f"{store.lines[-1]} raises {error and one_line(error)}, must use what another made meanwhile")
    con = store.open(path)
    store.lines.append('con1.execute("SELECT last, total FROM checkpoint")')
    (row,) = fetched(con, "SELECT last, total FROM checkpoint")
    store.expect(row == (0, 7), f"{store.lines[-2]} leaves the checkpoint {row}, must keep (0, 7)")


def test_processes_that_open_a_new_file_at_once_agree(store: StoreGuard, client_path: Path) -> None:
    path = store.path.with_name("new.db")
    answers = open_at_once(PROCESSES, CLIENT, client_path, path)
    store.lines.append(f"# {PROCESSES} processes at once: client.open_store('new.db')")
    wrong = [answer for answer in answers if answer != "delete" and LOCKED not in answer]
    store.expect(not wrong, f"{PROCESSES} processes that open one new file answer {wrong[:1]}, must all open it")
    store.open(path)
    with contextlib.closing(connect(path)) as con:
        difference = differences(observe(con), State())
    store.expect(not difference, f"{PROCESSES} processes that open one new file leave {difference}")


@pytest.mark.parametrize("holders", [0, 1], ids=["closed", "held open"])
def test_no_store_stays_in_wal_unsaid(store: StoreGuard, holders: int) -> None:
    path = make(store.path.with_name("wal.db"), "PRAGMA journal_mode = WAL", CHECKPOINT, LEDGER)
    store.watched = path
    with contextlib.ExitStack() as stack:
        for _ in range(holders):
            stack.enter_context(held(path, "SELECT count(*) FROM ledger"))
            store.lines.append(f"# another connection keeps {path.name!r} open in journal_mode WAL")
        con, error = store.attempt("open_store", path)
        mode = None if error else fetched(con, "PRAGMA journal_mode")[0][0]
        store.expect(error or mode == "delete", f"{store.lines[-1]} leaves journal_mode {mode!r}, must not")
        store.expect(not store.kept_open, f"{store.lines[-1]} raises and leaves the file open")
        if con is not None:
            con.close()


# --- failing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 4096])
def test_what_is_no_database_is_closed(store: StoreGuard, size: int) -> None:
    path = store.path.with_name("text.db")
    path.write_bytes(before := b"no database " * size)
    must_close(store, path, Exception)
    store.expect(path.read_bytes() == before, f"{store.lines[-1]} changes a file that is no database")


def test_a_folder_is_no_store(store: StoreGuard) -> None:
    must_close(store, store.path.parent, Exception)


HALVES = {
    "no ledger and no row in the checkpoint": (CHECKPOINT,),
    "no row in the checkpoint": (CHECKPOINT, LEDGER),
}


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK"])
@pytest.mark.parametrize("half", HALVES)
def test_a_failing_row_leaves_no_table_and_no_connection(store: StoreGuard, half: str, how: str) -> None:
    trigger = f"CREATE TRIGGER never BEFORE INSERT ON checkpoint BEGIN SELECT RAISE({how}, 'never'); END"
    path = make(store.path.with_name("half.db"), *HALVES[half], trigger)
    store.lines.append(f"# half.db holds: {'; '.join(HALVES[half])}; {trigger}")
    before = master(path)
    must_close(store, path, sqlite3.IntegrityError)
    store.expect(master(path) == before, f"{store.lines[-1]} fails and leaves another schema, must leave all as it was")


def test_a_store_is_made_whole_or_not_at_all(store: StoreGuard) -> None:
    """The disk is full after so many pages: how many are enough is the module's own affair."""
    for pages in range(1, 12):
        path = store.path.with_name(f"{pages}.db")
        store.watched = path
        with file_size(4096 * pages):
            con, error = store.attempt("open_store", path)
        if error is None:
            with contextlib.closing(con):
                rows = observe(con)
            store.expect(rows == State(), f"on a disk of {pages} pages {store.lines[-1]} leaves {rows}")
            continue
        store.expect(not store.kept_open, f"{store.lines[-1]} raises on a full disk and leaves the file open")
        tables = [name for _, name, _ in master(path)] if path.exists() else []
        store.expect(not tables, f"{store.lines[-1]} fails on a full disk and leaves {tables}, must leave nothing")


def test_opening_the_same_file_takes_no_lock_away(store: StoreGuard) -> None:
    """A process that closes any descriptor of a file loses all POSIX locks that it has on it."""
    locked: list[bool] = []

    def fault(hook: str) -> None:
        if hook == "after-total":
            with contextlib.suppress(sqlite3.OperationalError):
                store.client.open_store(store.path).close()
            locked.append(is_locked(store.path))

    store.call("apply_event", store.con, 0, 7, fault)
    lost = f"{store.lines[-1]} loses its write lock while its hook after-total calls open_store on the same file"
    store.expect(locked == [True], f"{lost}, must keep it")
