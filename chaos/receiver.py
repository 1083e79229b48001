"""The receiver: ``python -m chaos.receiver MODULE`` runs the module's ``run_client``, and stands still in a hook.

An order is one call. What it says is ``stands``, the hook and which call of it this is; or ``ended``, and how.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.tcp import HOST
from chaos.wire import Say, ear, mouth
from model.counterexample import show
from model.port import Fault, raised
from model.store import Client, Store, load

STANDS, ENDED = "stands", "ended"
RETURNS: Final = "returns {}"


@dataclass(frozen=True, slots=True)
class Order:
    """One ``run_client``; it stands still when ``hook`` is called for the ``nth`` time, and never if there is none."""

    path: str
    port: int
    timeout_s: float
    hook: str = ""
    nth: int = 1


def receive(client: Client, order: Order, fault: Fault | None) -> str:
    """How the call ended, in words: what it returns, or which error it raises."""

    async def call() -> object:
        return await client.run_client(order.path, HOST, order.port, order.timeout_s, fault)

    try:
        value = asyncio.run(call())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the module's
        return show(raised(Store(client, Path(order.path)), error, None))
    return RETURNS.format(repr(tuple(value) if isinstance(value, tuple) else value))


def at(hook: str, nth: int, do: Callable[[], object]) -> Fault | None:
    """A fault hook that does so when ``hook`` is called for the ``nth`` time; None if there is no hook."""
    calls: Counter[str] = Counter()

    def fault(name: str) -> None:
        calls[name] += 1
        if name == hook and calls[name] == nth:
            do()

    return fault if hook else None


def obey(client: Client, order: Order, say: Say) -> None:
    """One order; who stands still does so for ever."""

    def stand() -> None:
        say(STANDS, order.hook, order.nth)
        threading.Event().wait()

    say(ENDED, receive(client, order, at(order.hook, order.nth, stand)))


def main() -> None:
    """Obey orders until stdin closes."""
    say = mouth()
    client = load(sys.argv[1])
    for order in ear():
        obey(client, Order(**order[0]), say)


if __name__ == "__main__":
    main()
