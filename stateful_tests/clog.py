"""How to bring about that acknowledgements wait in the receiver, since the publisher does not read them."""

from __future__ import annotations

import threading
import time
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

STALL_S: Final = 1.0
READ_S: Final = 0.01


def clog(narrow: Sessions, timeout: float, *last: bytes, fault: Fault | None = None) -> None:
    """Begin a session and send the clog, event 1, and once the receiver has processed them, the rest; read nothing.

    But where it stalls: one that reads no further until what it has said is sent is as right, and is heard until it
    goes on.
    """
    watched, pause = _Watched(fault), STALL_S
    narrow.welcome(-1, timeout=timeout, fault=watched)
    narrow.send(CLOG, SECOND)
    until = time.monotonic() + PATIENCE
    while not watched.processed.wait(pause):
        narrow.settle()
        if watched.processed.is_set():
            break
        if narrow.publisher.hear_pending():
            pause, until = READ_S, time.monotonic() + PATIENCE
        elif time.monotonic() > until:
            narrow.fail("run_client does not process 1,501 events", Hang)
    if last:
        narrow.send(*last)


class _Watched:
    """A fault hook, shown as the one that it was given: ``processed`` once the second event is committed."""

    def __init__(self, fault: Fault | None) -> None:
        self.fault, self.commits, self.processed = fault, 0, threading.Event()

    def __call__(self, hook: str) -> None:
        if self.fault is not None:
            self.fault(hook)
        self.commits += hook == "after-commit"
        if self.commits == 2:
            self.processed.set()

    def __repr__(self) -> str:
        return repr(self.fault) if self.fault else "print"
