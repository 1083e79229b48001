"""The process that forks the receivers of a storm: ``python -m chaos.receivers MODULE``, as ``chaos.nursery`` does.

A receiver makes some calls of ``run_client``, one after the other, says ``ended`` and how after each, and dies where it
is told to.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

from chaos.nursery import run
from chaos.receiver import ENDED, Order, at, receive
from chaos.wire import encode
from model.store import load


@dataclass(frozen=True, slots=True)
class Berth:
    """What a receiver has to know: its name and calls, and the hook that kills it when it is called so many times."""

    name: str
    path: str
    port: int
    timeout_s: float
    calls: int
    hook: str = ""
    nth: int = 1


def live(order: dict[str, Any], module: str, words: int) -> None:
    """Each call of a hook counts, whichever of the process's calls of ``run_client`` it is in."""
    berth, client = Berth(**order), load(module)
    fault = at(berth.hook, berth.nth, lambda: os.kill(os.getpid(), signal.SIGKILL))
    for _ in range(berth.calls):
        reply = receive(client, Order(berth.path, berth.port, berth.timeout_s), fault)
        os.write(words, encode(berth.name, ENDED, reply))


if __name__ == "__main__":
    run(live)
