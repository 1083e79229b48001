"""How to bring about that acknowledgements wait in the receiver, since the publisher does not read them."""

from __future__ import annotations

import threading
from typing import Final

from model.events import event_line
from model.port import Fault
from stateful_tests.playing import Hang
from stateful_tests.publisher import PATIENCE
from stateful_tests.sessions import Sessions

FIRST: Final = event_line(0, 7)
SECOND: Final = event_line(1, 5)

CLOG: Final = FIRST * 1_500
"""So many acknowledgements are more than small sockets hold, and too few for asyncio to hold up the sender."""


def clog(narrow: Sessions, timeout: float, *last: bytes, fault: Fault | None = None) -> None:
    """Begin a session and send the clog, event 1, and once the receiver has processed them, the rest; read nothing."""
    done: list[str] = []
    processed = threading.Event()

    def watched(hook: str) -> None:
        if fault is not None:
            fault(hook)
        done.append(hook)
        if done.count("after-commit") == 2:
            processed.set()

    narrow.welcome(-1, timeout=timeout, fault=watched)
    narrow.send(CLOG, SECOND)
    if not processed.wait(PATIENCE):
        narrow.fail("run_client does not process 1,501 events while the publisher does not read", Hang)
    if last:
        narrow.send(*last)
