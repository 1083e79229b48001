"""The port tells exactly what a module under test did, and names what keeps a file from being judged."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model import store
from model.contract import CLIENT, LOCKED, PLANTED, REFUSED, WORKER, Claim, Crash, Odd, Raise, Ran, Return, Ticket
from model.port import Unfit, connect, impatient, perform, reading
from model.queue import Queue, Worker, load, observe

TICKET = {"id": "a", "qty": 5, "owner": "w", "token": 1, "attempt": 1, "lease_until": 100}


class Text(str):
    """A str, and not exactly one."""

    __slots__ = ()


def claiming(claim: Callable[..., object]) -> Queue:
    """A module of which only ``claim`` is ever used."""
    errors = {name: type(name, (Exception,), {}) for name in ("Conflict", "Retryable", "Permanent", "BadAck")}
    return Queue(cast("Worker", SimpleNamespace(claim=claim, **errors)), Path("unused"))


def reply_to(claim: Callable[..., object]) -> object:
    with closing(sqlite3.connect(":memory:")) as con:
        return perform(claiming(claim), con, Claim("w", 0))


@pytest.mark.parametrize("value", [None, True, False, "done"])
def test_a_plain_value_is_returned_as_it_is(value: object) -> None:
    assert reply_to(lambda *_: value) == Return(cast("Any", value))


def test_a_member_of_an_enumeration_is_its_text() -> None:
    class Status(StrEnum):
        DONE = "done"

    assert reply_to(lambda *_: Status.DONE) == Return("done")
    assert reply_to(lambda *_: {"id": "a", "token": 1, "status": Status.DONE}) == Return(Ran("a", 1, "done"))


def test_a_dict_of_six_exact_values_is_a_ticket() -> None:
    assert reply_to(lambda *_: dict(TICKET)) == Return(Ticket(**cast("Any", TICKET)))


ODD: dict[str, object] = {
    "1": 1,
    "0": 0,
    "a list": [],
    "a key more": {**TICKET, "more": 1},
    "a key less": {key: TICKET[key] for key in TICKET if key != "qty"},
    "a bool token": {**TICKET, "token": True},
    "a float token": {**TICKET, "token": 1.0},
    "a str subclass for an owner": {**TICKET, "owner": Text("w")},
    "a dict subclass": type("Dict", (dict,), {})(TICKET),
}


@pytest.mark.parametrize("name", ODD)
def test_any_other_value_is_odd(name: str) -> None:
    assert reply_to(lambda *_: ODD[name]) == Return(Odd(repr(ODD[name])))


def test_an_error_is_told_by_identity_kind_and_text() -> None:
    def failing(error: BaseException) -> Callable[..., object]:
        def claim(*_: object) -> None:
            raise error

        return claim

    assert reply_to(failing(ValueError("x"))) == REFUSED
    assert reply_to(failing(sqlite3.OperationalError("database is locked"))) == LOCKED
    assert reply_to(failing(TypeError("two\nlines"))) == Raise("TypeError: two lines")
    assert reply_to(failing(SystemExit(3))) == Raise("SystemExit: 3")


def test_an_interrupt_from_outside_passes_through() -> None:
    def claim(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reply_to(claim)


@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_a_planted_error_is_known_again(kind: Any) -> None:  # noqa: ANN401
    def honest(_con: object, _owner: str, _now: int, _lease: int, fault: Callable[[str], None]) -> None:
        fault("after-claim")

    def lying(*arguments: Any) -> None:  # noqa: ANN401
        try:
            honest(*arguments)
        except BaseException as error:  # noqa: BLE001 - as the hook may raise any
            raise type(error)(*error.args) from None

    with closing(sqlite3.connect(":memory:")) as con:
        crash = Crash(Claim("w", 0), "after-claim", kind)
        assert perform(claiming(honest), con, crash) == PLANTED
        if kind != "KeyboardInterrupt":
            assert perform(claiming(lying), con, crash) != PLANTED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a worker module: lacks retry_delay, open_queue"),
        ("def oh(:", "does not import: SyntaxError: invalid syntax (line 1)"),
        ("import nowhere_to_be_found", "does not import: ModuleNotFoundError"),
        ("raise SystemExit(0)", "does not import: SystemExit: 0"),
        ("\n".join(f"def {name}(): ..." for name in WORKER.functions), "lacks Conflict, Retryable, Permanent, BadAck"),
    ],
)
def test_a_file_that_is_no_worker_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(text)
    with pytest.raises(Unfit) as told:
        load(file)
    assert str(told.value).startswith(f"{file}: ")
    assert says in str(told.value)
    assert "\n" not in str(told.value)


CLIENTS = {
    "": "not a client module: lacks open_store, parse_line, apply_event, consume_line, replay, run_client, BadLine",
    "def oh(:": "does not import: SyntaxError: invalid syntax (line 1)",
    "raise SystemExit(0)": "does not import: SystemExit: 0",
    "\n".join(f"def {name}(): ..." for name in CLIENT.functions): "lacks BadLine, Conflict, Gap, ResyncRequired",
    "\n".join(f"{name} = ValueError" for name in (*CLIENT.functions, *CLIENT.errors)): "",
    "\n".join(f"{name} = 7" for name in (*CLIENT.functions, *CLIENT.errors)): "lacks open_store, parse_line",
    "\n".join(
        [*(f"{name} = print" for name in CLIENT.functions), *(f"{name} = KeyboardInterrupt" for name in CLIENT.errors)]
    ): "not a client module: lacks BadLine, Conflict, Gap, ResyncRequired",
}


@pytest.mark.parametrize("text", CLIENTS)
def test_a_file_that_is_no_client_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(text)
    if not CLIENTS[text]:
        assert store.load(file).Gap is ValueError
        return
    with pytest.raises(Unfit) as told:
        store.load(file)
    assert str(told.value).startswith(f"{file}: ")
    assert CLIENTS[text] in str(told.value)
    assert "\n" not in str(told.value)


def test_a_worker_is_no_client() -> None:
    shipped = Path(__file__).parent.parent
    with pytest.raises(Unfit, match="not a client module: lacks open_store"):
        store.load(shipped / "worker.py")
    with pytest.raises(Unfit, match="not a worker module: lacks retry_delay"):
        load(shipped / "client.py")


@pytest.mark.parametrize(("name", "says"), [("none.py", "no such file"), ("", "is a directory"), ("a.txt", ".py")])
def test_a_path_that_is_no_source_file_is_named(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(Unfit, match=says):
        load(tmp_path / name)


@pytest.mark.parametrize("text", ["raise OSError", "", "def __getattr__(name): raise OSError"])
def test_a_module_that_is_refused_is_not_left_behind(tmp_path: Path, text: str) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(text)
    with pytest.raises(Unfit):
        load(file)
    assert not [name for name in sys.modules if name.endswith("theirs")]


def test_looking_needs_a_file_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connect(tmp_path / "queue.db")
    assert list(tmp_path.iterdir()) == []


def test_looking_holds_no_lock_afterwards(tmp_path: Path, worker: Worker) -> None:
    path = tmp_path / "odd name?#%.db"
    with closing(worker.open_queue(path)) as con, closing(connect(path)) as other:
        worker.enqueue(con, {"id": "a", "qty": 5}, 0, 10)
        assert [job.id for job in observe(other).jobs] == ["a"]
        with impatient(con):
            worker.enqueue(con, {"id": "b", "qty": 5}, 0, 10)
            with reading(path), pytest.raises(sqlite3.OperationalError, match="locked"):
                worker.enqueue(con, {"id": "c", "qty": 5}, 0, 10)
        assert con.execute("PRAGMA busy_timeout").fetchone() == (1000,)
        assert [job.id for job in observe(other).jobs] == ["a", "b"]
