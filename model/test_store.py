"""The store at the port: what is called, with which arguments, and how what comes of it is told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model.contract import CLIENT, LOCKED, PLANTED, REFUSED, Blocked, Crash, Odd, Raise, Return
from model.events import BAD_LINE, GAP, RESYNC_REQUIRED, Apply, Checkpoint, Consume, Entry, State
from model.port import connect, perform
from model.store import Client, Store, observe

ERRORS: dict[str, type[Exception]] = {
    "BadLine": type("BadLine", (ValueError,), {}),
    **{name: type(name, (Exception,), {}) for name in ("Conflict", "Gap", "ResyncRequired")},
}


def having(**functions: object) -> Store:
    """A module of which only these functions are ever used."""
    return Store(cast("Client", SimpleNamespace(**functions, **ERRORS)), Path("unused"))


def raising(error: BaseException) -> Callable[..., object]:
    def apply(*_: object) -> None:
        raise error

    return apply


def reply_to(apply: Callable[..., object]) -> object:
    with closing(sqlite3.connect(":memory:")) as con:
        return perform(having(apply_event=apply), con, Apply(0, 7))


def test_each_operation_calls_its_function() -> None:
    store = having(apply_event=lambda *given: repr(given[1:]), consume_line=lambda *given: repr(given[1:]))
    with closing(sqlite3.connect(":memory:")) as con:
        assert perform(store, con, Apply(3, -7)) == Return("(3, -7, None)")
        assert perform(store, con, Consume(b"EVENT 3 -7\n")) == Return(repr((b"EVENT 3 -7\n", None)))


@pytest.mark.parametrize("value", [True, False, None, b"ACK 0\n"])
def test_a_plain_value_is_returned_as_it_is(value: Any) -> None:  # noqa: ANN401
    assert reply_to(lambda *_: value) == Return(value)


@pytest.mark.parametrize("value", [1, 0, bytearray(b"ACK 0\n"), (True,), type("Line", (bytes,), {})(b"ACK 0\n")])
def test_any_other_value_is_odd(value: object) -> None:
    assert reply_to(lambda *_: value) == Return(Odd(repr(value)))


def test_each_error_has_its_word() -> None:
    assert [reply_to(raising(ERRORS[name]("x"))) for name in CLIENT.errors] == [
        BAD_LINE,
        Raise("Conflict"),
        GAP,
        RESYNC_REQUIRED,
    ]
    assert reply_to(raising(ValueError("x"))) == REFUSED
    assert reply_to(raising(OverflowError("too large"))) == Raise("OverflowError: too large")
    assert reply_to(raising(sqlite3.OperationalError("database is locked"))) == LOCKED


@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_a_planted_error_comes_out_of_its_hook(kind: Any) -> None:  # noqa: ANN401
    def consume(_con: object, _data: bytes, fault: Callable[[str], None]) -> None:
        fault("after-total")
        raise AssertionError("the hook did not raise")

    with closing(sqlite3.connect(":memory:")) as con:
        assert perform(having(consume_line=consume), con, Crash(Consume(b""), "after-total", kind)) == PLANTED


def test_rows_are_read_in_the_order_of_seq(tmp_path: Path, client: Client) -> None:
    store = Store(client, tmp_path / "store.db")
    with closing(store.open()) as con, closing(connect(store.path)) as other:
        assert observe(other) == State()
        assert [perform(store, con, Apply(seq, delta)) for seq, delta in ((0, 7), (1, -3))] == [Return(value=True)] * 2
        assert perform(store, con, Blocked(Apply(2, 1))) == LOCKED
        assert observe(other) == State((Checkpoint(1, 1, 4),), (Entry(0, 7), Entry(1, -3)))
        assert store.ranked(observe(other)) == observe(other)
