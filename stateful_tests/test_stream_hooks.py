"""The stream's fault hooks: an error before COMMIT undoes everything, one after it nothing, and it arrives itself."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from model import stream
from model.contract import Crash, Planted
from model.counterexample import differences
from model.events import FAULT_HOOKS, Apply, Plain
from model.port import PLANTS, fetched
from model.store import Client
from stateful_tests.guard import PLANTED_TEXT, StoreGuard, planted_error
from stateful_tests.stream_clauses import CHANGES, FIVE, NO_CHANGES, StoreFixture, prepare

pytestmark = pytest.mark.layer("contract")

HOOKED = {
    f"{name}, {hook.name}": (name, hook)
    for name, (_, op) in CHANGES.items()
    for hook in FAULT_HOOKS
    if hook.op is type(op)
}
BEFORE_COMMIT = [where for where, (_, hook) in HOOKED.items() if not hook.kept]
AFTER_COMMIT = [where for where, (_, hook) in HOOKED.items() if hook.kept]

OTHERS: dict[str, Callable[[Client], type[BaseException]]] = {
    "StopIteration": lambda _: StopIteration,
    "ValueError": lambda _: ValueError,
    "OSError": lambda _: OSError,
    "sqlite3.OperationalError": lambda _: sqlite3.OperationalError,
    "sqlite3.IntegrityError": lambda _: sqlite3.IntegrityError,
    "Conflict": lambda client: client.Conflict,
    "Gap": lambda client: client.Gap,
    "BadLine": lambda client: client.BadLine,
}


def function(op: Plain) -> str:
    return "apply_event" if isinstance(op, Apply) else "consume_line"


@pytest.mark.parametrize("error", PLANTS)
@pytest.mark.parametrize("where", HOOKED)
def test_the_error_of_a_hook_arrives_itself(store_lockstep: StoreFixture, where: str, error: Planted) -> None:
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    pair = store_lockstep(connections=2)
    prepare(pair, program)
    pair.do(Crash(op, hook.name, error))
    pair.do(op, con=2)
    pair.do(Apply(len(program) + 1, 1), con=2)
    pair.do(op)


@pytest.mark.parametrize("where", HOOKED)
def test_a_hook_that_says_locked_is_not_called_again(store: StoreGuard, where: str) -> None:
    """The text is SQLite's for a lock, which is not the hook's to wait for."""
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    before = store.prepare(program)
    store.raises_once(sqlite3.OperationalError("database is locked"), hook.name, function(op), store.con, *astuple(op))
    if not hook.kept:
        store.unchanged(before)


@pytest.mark.parametrize("where", HOOKED)
def test_an_event_of_another_store_changes_nothing_here(
    client: Client, tmp_path: Path, did: Counter[str], where: str
) -> None:
    name, hook = HOOKED[where]
    program, op = CHANGES[name]
    with StoreGuard(client, tmp_path / "here.db", did) as here, StoreGuard(client, tmp_path / "there.db", did) as there:
        want, _ = stream.step(here.prepare(program), op)
        want_there, _ = stream.step(there.rows(), Apply(0, 9))

        def fault(reached: str) -> None:
            if reached == hook.name:
                there.do(Apply(0, 9))

        here.call(function(op), here.con, *astuple(op), fault)
        differs = differences(here.rows(), want) or differences(there.rows(), want_there)
        here.expect(not differs, f"{here.lines[-1]}, in whose hook event 0 of another store is applied: {differs}")


@pytest.mark.parametrize("where", HOOKED)
def test_a_hook_returns_what_it_likes(store: StoreGuard, where: str) -> None:
    name, _ = HOOKED[where]
    program, op = CHANGES[name]
    after, _ = stream.step(store.prepare(program), op)
    store.call(function(op), store.con, *astuple(op), lambda _: False)
    differs = differences(store.rows(), after)
    store.expect(not differs, f"{store.lines[-1]}: {differs}")


@pytest.mark.parametrize("name", CHANGES)
def test_last_moves_after_the_hook(store: StoreGuard, name: str) -> None:
    """The lent connection itself sees the row and the total at after-total, and last as it was."""
    program, op = CHANGES[name]
    before = store.prepare(program).checkpoint[0]
    seq, delta = len(program), 7 if not program else -11
    seen: list[tuple[object, ...]] = []

    def fault(hook: str) -> None:
        look = "SELECT last, total, (SELECT delta FROM ledger WHERE seq = ?) FROM checkpoint"
        seen.append((hook, *fetched(store.con, look, seq)[0]))

    store.call(function(op), store.con, *astuple(op), fault)
    total = before.total + delta
    must = [("after-total", before.last, total, delta), ("after-commit", seq, total, delta)]
    store.expect(
        seen == must, f"{store.lines[-1]} shows its hooks last, total and delta as {seen}, must show them {must}"
    )


@pytest.mark.parametrize("name", CHANGES)
def test_after_commit_everybody_can_write(store: StoreGuard, name: str) -> None:
    program, op = CHANGES[name]
    store.prepare(program)
    reached: list[str] = []

    def fault(hook: str) -> None:
        reached.append(hook)
        if hook == "after-commit":
            store.idle(store.con)

    store.attempt(function(op), store.con, *astuple(op), fault=fault)
    store.lines.append("# at after-commit another connection writes")
    store.expect("after-commit" in reached, f"{store.lines[-2]} never calls after-commit, must call it")
    store.call(function(op), store.con, *astuple(op))


@pytest.mark.parametrize("name", NO_CHANGES)
def test_without_a_change_no_hook_is_called(store: StoreGuard, name: str) -> None:
    program, op = NO_CHANGES[name]
    before = store.prepare(program)
    called: list[str] = []
    store.attempt(function(op), store.con, *astuple(op), called.append)
    store.expect(not called, f"{store.lines[-1]} calls {called}, must call no hook")
    store.unchanged(before)


class Calls(list[str]):
    """A hook that keeps what it is called with, and counts as false until then."""

    __slots__ = ()

    def __call__(self, hook: str) -> None:
        self.append(hook)


@pytest.mark.parametrize("name", CHANGES)
def test_a_hook_that_counts_as_false_is_called(store: StoreGuard, name: str) -> None:
    program, op = CHANGES[name]
    store.prepare(program)
    store.call(function(op), store.con, *astuple(op), hook := Calls())
    must = ["after-total", "after-commit"]
    store.expect(hook == must, f"{store.lines[-1]}, a hook that counts as false, calls {hook}, must call {must}")


def raise_at(
    store: StoreGuard, con: sqlite3.Connection, where: str, error: BaseException, first: Callable[[], object] = bool
) -> None:
    """The call on ``con`` must end in the error that its hook raises after doing something of its own."""
    name, hook = HOOKED[where]
    _, op = CHANGES[name]

    def fault(reached: str) -> None:
        if reached == hook.name:
            first()
            raise error

    store.raises(error, function(op), con, *astuple(op), fault)


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("where", BEFORE_COMMIT)
def test_no_kind_of_error_is_kept_back(store: StoreGuard, where: str, error: str) -> None:
    before = store.prepare(CHANGES[HOOKED[where][0]][0])
    raise_at(store, store.con, where, planted_error(OTHERS[error](store.client)))
    store.unchanged(before)


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("where", AFTER_COMMIT)
def test_an_error_after_commit_keeps_the_event(store: StoreGuard, where: str, error: str) -> None:
    program, op = CHANGES[HOOKED[where][0]]
    must, _ = store.subject.model.step(store.prepare(program), op)
    raise_at(store, store.con, where, planted_error(OTHERS[error](store.client)))
    if difference := differences(store.rows(), must):
        store.fail(f"{store.lines[-1]} raises after its COMMIT and leaves {difference}")
    store.idle(store.con)


@pytest.mark.parametrize("where", BEFORE_COMMIT)
def test_a_hook_may_roll_back_itself(store: StoreGuard, where: str) -> None:
    before = store.prepare(CHANGES[HOOKED[where][0]][0])
    raise_at(store, store.con, where, Exception(PLANTED_TEXT), lambda: store.con.execute("ROLLBACK").close())
    store.unchanged(before)


# --- errors of SQLite's own -------------------------------------------------------------------------------------------

WRITES = {
    "into the ledger": ("INSERT ON ledger",),
    "of the checkpoint": ("UPDATE ON checkpoint", "DELETE ON checkpoint", "INSERT ON checkpoint"),
}


@pytest.mark.parametrize("how", ["ABORT", "FAIL", "ROLLBACK"])
@pytest.mark.parametrize("what", WRITES)
def test_a_write_that_fails_leaves_nothing(store: StoreGuard, what: str, how: str) -> None:
    """ROLLBACK ends the transaction by itself, as a full disk does: to roll back again must not hide the error."""
    before = store.prepare(FIVE)
    for number, event in enumerate(WRITES[what]):
        trigger = f"CREATE TRIGGER t{number} BEFORE {event} BEGIN SELECT RAISE({how}, 'never'); END"
        store.other.execute(trigger).close()
        store.lines.append(f'con1.execute("{trigger}")')
    error = store.refused(sqlite3.IntegrityError, "apply_event", store.con, 5, -11)
    store.expect(str(error) == "never", f"{store.lines[-1]} raises another error than SQLite's own: {error}")
    store.unchanged(before)
