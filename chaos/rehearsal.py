"""What a fork server does once so that its forks have less to do: most of their work is to copy pages that they touch.

Nothing of the module under test is run by it, and nothing of SQLite.
"""

from __future__ import annotations

from _thread import allocate_lock  # `threading` would have each fork call back
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from chaos.child import Order, encode, obey
from chaos.stages import COMMIT_DONE, SEND
from model.contract import Claim, Kind
from model.port import Subject

TIMES: Final = 10
"""How often Python runs a function before it has settled how: until then it writes into the function's code."""
GAPS: Final = 2000


def rehearse(kind: Kind) -> None:
    """Run our part of a forked process's life, with stand-ins for the module and its connection."""
    op = Claim("w", 0)
    for hook in (SEND, COMMIT_DONE) * TIMES:
        order = Order(kind.name, "", "", repr(op), hook)
        encode(obey(_stand_in(kind), order, op, [], encode))


def _stand_in(kind: Kind) -> Subject[Any, Any]:
    """Its operation reaches a hook and returns."""

    def call(_con: object, _op: object, fault: Any, _planted: object) -> None:  # noqa: ANN401
        fault(SEND)

    con = SimpleNamespace(total_changes=0, in_transaction=False, set_trace_callback=lambda _: None)
    return cast("Subject[Any, Any]", SimpleNamespace(kind=kind, path=Path(), open=lambda: con, call=call))


def gaps_filled() -> list[Any]:
    """Whatever fills the gaps that imports have left all over C's heap; to be kept.

    A forked process would fill them itself, and copy a page for each. A lock is small, and from ``malloc``.
    """
    return [allocate_lock() for _ in range(GAPS)]
