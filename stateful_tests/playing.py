"""What the publisher of the harness and ``run_client`` do to each other, up to the end: a step is a call here."""

from __future__ import annotations

import contextlib
import gc
import inspect
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from model import steps
from model.counterexample import Violation
from model.events import ack_line, resume_line
from model.port import Fault
from model.store import Client
from stateful_tests.publisher import NARROW, PATIENCE, Publisher, Silence, shown
from stateful_tests.receiver import Ended, Loop, Receiver, internet_sockets

UNLIMITED: Final = 3 * PATIENCE
"""A timeout that ends no session, for no check waits so long."""


WAITS: Final = 3
"""So many waits there can be in a row when nothing more happens: to send, to close, and one to spare."""


class Hang(Violation):
    """The module did not do in all the time there was what it must do at once."""


class DieAt:
    """A fault hook that raises ``error`` when the hook ``name`` is reached for the ``nth`` time."""

    def __init__(self, name: str, error: BaseException, nth: int = 1, first: Callable[[], object] = bool) -> None:
        self.name, self.error, self.nth, self.first = name, error, nth, first
        self.left = nth

    def __call__(self, reached: str) -> None:
        self.left -= reached == self.name
        if reached == self.name and not self.left:
            self.first()
            raise self.error

    def __repr__(self) -> str:
        return f"die_at({self.name!r}, {self.nth}, {type(self.error).__name__})"


class Playing:
    """One store file, one publisher, and the calls of ``run_client`` that connect to it, one after the other.

    A list in ``kept`` keeps alive whatever connection to the store there is once RESUME was heard, so that only
    ``close`` can close it.
    """

    def __init__(self, client: Client, path: Path, did: Counter[str], *, narrow: bool = False) -> None:
        self.client, self.path, self.did, self.narrow = client, path, did, narrow
        self.debug = False
        self.write_limit: int | None = None
        self.publisher = Publisher(narrow=narrow)
        self.receiver: Receiver | None = None
        self.closed_doors = False
        self.kept: list[sqlite3.Connection] | None = None
        self._others: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.publisher.close()
        if self.receiver is not None:
            self.receiver.abandon()

    # --- the beginning ------------------------------------------------------------------------------------------------

    def begin(self, timeout: float = UNLIMITED, fault: Fault | None = None, path: str | Path | None = None) -> None:
        """Call ``run_client``; it may have to wait for what the publisher does next."""
        named = f", {_named(fault)}" if fault else ""
        self.publisher.lines.append(f"peer = session({timeout:g}{named})")
        steps.note(self.publisher.lines[-1])
        self.did["sessions"] += 1
        self._others = internet_sockets()
        host, port = self.publisher.host, self.publisher.port
        call = partial(self.client.run_client, path or self.path, host, port, timeout, fault)
        self.receiver = Receiver(call, self._loop(), debug=self.debug)

    def _loop(self) -> Loop:
        loop = Loop()
        loop.send_buffer, loop.write_limit = NARROW if self.narrow else None, self.write_limit
        return loop

    def accept(self) -> None:
        """Take the connection that ``run_client`` must make."""
        if not self.publisher.visited(self._running.bell, wait=PATIENCE):
            self.fail(f"run_client makes no connection and {self._running.ended or 'does not end'}")
        self.publisher.accept()

    def welcome(self, last: int = -1, *, timeout: float = UNLIMITED, fault: Fault | None = None) -> None:
        """Begin a session, up to the line that a receiver says first."""
        self.begin(timeout, fault)
        self.accept()
        self.hear(resume_line(last))
        if self.kept is not None:
            self.kept += [thing for thing in gc.get_objects() if isinstance(thing, sqlite3.Connection)]

    def knock(self, timeout: float = UNLIMITED, *, crowd: bool) -> None:
        """Begin a session with a publisher that refuses the connection, or never completes it."""
        self.closed_doors = True
        if crowd:
            self.publisher.crowd()
        else:
            self.publisher.refuse()
        self.begin(timeout)

    # --- the middle ---------------------------------------------------------------------------------------------------

    def send(self, *lines: bytes) -> None:
        """All of it at once."""
        self.publisher.send(b"".join(lines))
        self.did["lines sent"] += len(lines)

    def hear_acks(self, *seqs: int) -> None:
        """The next thing to be heard must be these acknowledgements."""
        self.hear(b"".join(map(ack_line, seqs)))

    def settle(self) -> None:
        """Let the receiver read what was sent so far."""
        with self._bounded():
            self._running.settle()

    def pass_time(self, seconds: float) -> None:
        """Put the clock of the event loop forward."""
        self.publisher.lines.append(f"time.sleep({seconds:g})")
        self._running.pass_time(seconds)

    def cancel(self) -> None:
        """Cancel the call."""
        self.publisher.lines.append("loop.call_soon_threadsafe(task.cancel)")
        self._running.cancel()

    def starve(self, timeout: float) -> None:
        """Nothing happens any more: time passes until the call has ended, as many timeouts as that may take."""
        for _ in range(WAITS):
            self.settle()
            if self._running.rings(0.2):
                return
            self.pass_time(1.01 * timeout)

    def hear(self, want: bytes) -> None:
        """The next thing to be heard must be this."""
        with self._bounded():
            got = self.publisher.hear(len(want))
        if got != want:
            end = f", and the connection ends: run_client {self._ended()}" if self.publisher.over else ""
            self.fail(f"the publisher hears {shown(got)}, must hear {shown(want)}{end}")

    def hear_out(self) -> None:
        """The connection must come to its end."""
        with self._bounded():
            self.publisher.hear_out()

    # --- how it goes --------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> Ended | None:
        """How the call has ended, if it has."""
        return self._running.ended

    def forget(self) -> list[str]:
        """Let go of the last session, and say what the event loop complained of."""
        receiver, self.receiver = self._running, None
        self.publisher.disperse()
        return receiver.complaints

    def _ended(self) -> Ended:
        with self._bounded():
            if self.publisher.peer and self.publisher.visited(self._running.bell, wait=PATIENCE):
                self.fail("run_client connects a second time in one call")
            return self._running.wait(0.0 if self.publisher.peer else PATIENCE)

    def fail(self, difference: str, kind: type[Violation] = Violation) -> NoReturn:
        raise kind(difference, self.publisher.program())

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        try:
            yield
        except Silence as silence:
            heard = f"; so far it has heard {shown(self.publisher.all_heard)}" if self.publisher.peer else ""
            self.fail(f"run_client makes the publisher wait more than {PATIENCE:g} s {silence}{heard}", Hang)

    @property
    def _running(self) -> Receiver:
        if self.receiver is None:
            raise RuntimeError("no session has begun")
        return self.receiver


def _named(fault: Fault) -> str:
    """What stands for it in a program: one that only watches, for all that it is told."""
    return "print" if inspect.isfunction(fault) else repr(fault)
