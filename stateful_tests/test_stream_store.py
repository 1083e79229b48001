"""open_store: what it makes of a file, and what it leaves as it was."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from model.contract import Reopen
from model.counterexample import differences
from model.events import Apply, Checkpoint, Entry, State
from model.port import connect, fetched, one_line
from model.store import Client, Store, observe
from stateful_tests.files import TO_THE_LETTER, UNEXPANDED, make, master, names_a_file
from stateful_tests.guard import StoreGuard
from stateful_tests.lockstep import Lockstep
from stateful_tests.stream_clauses import EVENTS, FIVE, StoreFixture, prepare

pytestmark = pytest.mark.layer("contract")

CHECKPOINT = "CREATE TABLE checkpoint (id INTEGER PRIMARY KEY, last INTEGER, total INTEGER)"
LEDGER = "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, delta INTEGER)"
START = "INSERT INTO checkpoint (id, last, total) VALUES (1, -1, 0)"
MOVED = "INSERT INTO checkpoint (id, last, total) VALUES (1, 4, 4)"
FILLED = f"INSERT INTO ledger (seq, delta) VALUES {', '.join(map(str, EVENTS))}"
"""A store as someone else may have made it."""

EMPTY, FULL = State(), State((Checkpoint(1, 4, 4),), tuple(Entry(*event) for event in EVENTS))


def must_hold(store: StoreGuard, path: Path, want: State) -> None:
    """The last call left these rows in the file, as another connection sees them."""
    with contextlib.closing(connect(path)) as con:
        try:
            rows = observe(con)
        except sqlite3.Error as error:
            store.fail(f"{store.lines[-1]} leaves a file of which another connection says: {one_line(error)}")
    if difference := differences(rows, want):
        store.fail(f"{store.lines[-1]} leaves {difference}")


# --- a new file -------------------------------------------------------------------------------------------------------


def test_a_new_file_is_an_empty_store(store: StoreGuard) -> None:
    must_hold(store, store.path, EMPTY)


def test_each_seq_has_one_row(store: StoreGuard) -> None:
    row = "INSERT INTO ledger (seq, delta) VALUES (5, {})"
    store.other.execute(row.format(1)).close()
    try:
        store.other.execute(row.format(2)).close()
    except sqlite3.IntegrityError:
        return
    store.fail("ledger takes two rows with the same seq, must have it as its primary key")


def test_the_connection_has_its_settings(store: StoreGuard) -> None:
    con = store.open(store.path)
    store.expect(isinstance(con, sqlite3.Connection), f"{store.lines[-1]} returns {con!r}, must return a Connection")
    level = con.isolation_level
    store.expect(level is None, f"{store.lines[-1]} has isolation_level {level!r}, must have None")
    store.expect(not con.in_transaction, f"{store.lines[-1]} leaves a transaction open")
    ((mode,),) = fetched(con, "PRAGMA journal_mode")
    store.expect(mode == "delete", f"{store.lines[-1]} has journal_mode {mode!r}, must have 'delete'")
    ((level,),) = fetched(con, "PRAGMA synchronous")
    store.expect(level == 2, f"{store.lines[-1]} has synchronous {level}, must have 2 (FULL)")


def test_each_opening_is_a_connection_of_its_own(store: StoreGuard) -> None:
    con = store.open(store.path)
    store.expect(con is not store.con, f"{store.lines[-1]} returns the connection of an earlier call, must not")
    con.close()
    store.call("apply_event", store.con, 0, 7)


# --- an old one -------------------------------------------------------------------------------------------------------

STORES: dict[str, tuple[tuple[int, int], ...]] = {
    "nothing": (),
    "five events": EVENTS,
    "one event of 0": ((0, 0),),
    "a total of 0": ((0, 7), (1, -7)),
    "a total of -1": ((0, -1),),
    "a total of -1000": ((0, -1000),),
}


@pytest.mark.parametrize("held", STORES)
def test_opening_again_keeps_every_row(store: StoreGuard, held: str) -> None:
    before = store.prepare([Apply(*event) for event in STORES[held]])
    schema = master(store.path)
    for _ in range(3):
        con = store.open(store.path)
        must_hold(store, store.path, before)
        store.expect(master(store.path) == schema, f"{store.lines[-1]} changes the schema of an existing store")
        store.idle(con)


@pytest.mark.parametrize("held", STORES)
def test_a_store_goes_on_where_it_was(store_lockstep: StoreFixture, held: str) -> None:
    pair = store_lockstep()
    seq = len(STORES[held])
    for event in STORES[held]:
        pair.do(Apply(*event))
        pair.do(Reopen())
    for op in (Apply(seq + 1, 1), Apply(seq, 9), Reopen(), Apply(seq, 9), Apply(seq, 8)):
        pair.do(op)


def test_a_store_that_someone_else_made_works(client: Client, tmp_path: Path, did: Counter[str]) -> None:
    path = make(tmp_path / "store.db", CHECKPOINT, LEDGER, START)
    schema = master(path)
    with Lockstep(Store(client, path), did) as pair:
        prepare(pair, FIVE)
        for op in (Reopen(), FIVE[4], Apply(4, 1), Apply(6, 1), Apply(5, 1)):
            pair.do(op)
    with StoreGuard(client, path, did) as store:
        store.expect(master(path) == schema, "a store made by someone else gets another schema, must keep its own")


HALVES: dict[str, tuple[str, ...]] = {
    "no table": ("CREATE TABLE other (x)", "DROP TABLE other"),
    "no ledger": (CHECKPOINT, START),
    "no checkpoint": (LEDGER,),
    "no row in the checkpoint": (CHECKPOINT, LEDGER),
    "no ledger and no row in the checkpoint": (CHECKPOINT,),
    "both, and a table of someone else's": (CHECKPOINT, LEDGER, START, "CREATE TABLE other (x)"),
    "only a table of someone else's": ("CREATE TABLE other (x)",),
}


@pytest.mark.parametrize("half", HALVES)
def test_what_is_missing_is_made(store: StoreGuard, half: str) -> None:
    path = make(store.path.with_name("half.db"), *HALVES[half])
    schema = master(path)
    for _ in range(2):
        con = store.open(path)
        must_hold(store, path, EMPTY)
        con.close()
    store.expect(master(path)[: len(schema)] == schema, f"{store.lines[-1]} changes what it finds, must add to it")
    store.call("apply_event", store.open(path), 0, 7)
    must_hold(store, path, State((Checkpoint(1, 0, 7),), (Entry(0, 7),)))


def test_an_empty_file_becomes_a_store(store: StoreGuard) -> None:
    path = store.path.with_name("empty.db")
    path.touch()
    store.open(path)
    must_hold(store, path, EMPTY)


TORN: dict[str, tuple[tuple[str, ...], State]] = {
    "no ledger": ((CHECKPOINT, MOVED), FULL._replace(ledger=())),
    "an empty ledger": ((CHECKPOINT, MOVED, LEDGER), FULL._replace(ledger=())),
    "no checkpoint": ((LEDGER, FILLED), FULL._replace(checkpoint=EMPTY.checkpoint)),
    "no row in the checkpoint": ((CHECKPOINT, LEDGER, FILLED), FULL._replace(checkpoint=EMPTY.checkpoint)),
}


@pytest.mark.parametrize("torn", TORN)
def test_the_rows_of_a_torn_store_survive(store: StoreGuard, torn: str) -> None:
    """It may refuse what no receiver can have left; if it opens it, it adds what is missing, and no more."""
    statements, want = TORN[torn]
    path = make(store.path.with_name("torn.db"), *statements)
    con, error = store.attempt("open_store", path)
    if error is None:
        con.close()
        must_hold(store, path, want)


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TO_THE_LETTER)
def test_a_path_is_taken_to_the_letter(store: StoreGuard, name: str) -> None:
    folder = store.path.parent / "folder"
    folder.mkdir()
    store.open(folder / name)
    there = [path.name for path in folder.iterdir()]
    store.expect(there == [name], f"{store.lines[-1]} makes {there!a}, must make {name!a}")


@pytest.mark.parametrize("name", UNEXPANDED)
def test_a_path_is_not_expanded(store: StoreGuard, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    names_a_file(store, "open_store", monkeypatch, name)


def test_a_str_and_a_path_object_are_paths(store: StoreGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.path.parent)
    store.prepare(FIVE)
    for path in (str(store.path), store.path, "store.db", "./store.db", Path("store.db")):
        (rows,) = fetched(store.open(path), "SELECT last FROM checkpoint")
        store.expect(rows == (4,), f"{store.lines[-1]} opens another file, must open store.db")
