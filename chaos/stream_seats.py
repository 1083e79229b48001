"""The receivers of a storm from the outside: forked one after another, each with its calls, its death and its words."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos import killer
from chaos.killer import Child, Unanswered, running, tell
from chaos.receivers import Berth
from chaos.tcp import listening, port_of, taken
from chaos.wire import encode


class Seats:
    """One receiver at a time, and the socket that it connects to."""

    def __init__(self, nursery: Child, store: Path, timeout_s: float) -> None:
        self._nursery, self._store, self._timeout_s = nursery, store, timeout_s
        self._listener = listening()
        self._words: deque[list[Any]] = deque()
        self._unread = b""
        self.pid = 0
        self.born = 0

    def close(self) -> None:
        self._listener.close()

    def start(self, calls: int, hook: str, nth: int) -> None:
        """The next receiver; the one before is dead."""
        self.born += 1
        berth = Berth(
            f"receiver-{self.born}", str(self._store), port_of(self._listener), self._timeout_s, calls, hook, nth
        )
        tell(self._nursery, json.dumps(asdict(berth)).encode() + b"\n")
        name, what, self.pid = self.word()
        if (name, what) != (berth.name, "born"):
            raise Unanswered(f"the process that forks says {name} {what} {self.pid}")

    def strike(self) -> None:
        """SIGKILL, wherever it may be; ``died`` is heard later."""
        tell(self._nursery, encode(self.pid, signal.SIGKILL))

    def caller(self) -> socket.socket | list[Any]:
        """The connection that comes next; or the word that is said first."""
        if not self._words and not self._wait(self._nursery.words.fileno(), self._listener.fileno()):
            raise Unanswered(f"no receiver has connected for {killer.PATIENCE_S:g} s")
        if self._hear():
            return self._words.popleft()
        return taken(self._listener)

    def last_word(self) -> list[Any] | None:
        """What the receiver says once its connection has ended; None if it connects again before that."""
        word = self.caller()
        if isinstance(word, socket.socket):
            word.close()
            return None
        return word

    def turn_away(self) -> None:
        """Who has died leaves nobody waiting."""
        while self._poll(0, self._listener.fileno()):
            taken(self._listener).close()

    # --- words --------------------------------------------------------------------------------------------------------

    def word(self) -> list[Any]:
        """What is said next."""
        deadline = time.monotonic() + killer.PATIENCE_S
        while not self._hear():
            if time.monotonic() > deadline or not self._wait(self._nursery.words.fileno()):
                raise Unanswered(f"no receiver says anything for {killer.PATIENCE_S:g} s")
        return self._words.popleft()

    def _hear(self) -> bool:
        """Whether something was said by now; what was said before anybody connected is heard before that is seen."""
        pipe = self._nursery.words.fileno()
        while self._poll(0, pipe):
            if not (part := os.read(pipe, 65536)):
                raise Unanswered(f"the process that forks has ended: {self._nursery.last_error()}")
            *lines, self._unread = (self._unread + part).split(b"\n")
            self._words.extend(json.loads(line) for line in lines)
        return bool(self._words)

    def _wait(self, *files: int) -> bool:
        return self._poll(killer.PATIENCE_S, *files)

    @staticmethod
    def _poll(within_s: float, *files: int) -> bool:
        poll = select.poll()
        for file in files:
            poll.register(file, select.POLLIN)
        return bool(poll.poll(within_s * 1000))


@contextlib.contextmanager
def seated(module: Path, store: Path, timeout_s: float) -> Iterator[Seats]:
    """The process that forks, ready; all that it has forked are dead when the context ends."""
    with running("chaos.receivers", str(module)) as nursery:
        seats = Seats(nursery, store, timeout_s)
        try:
            yield seats
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(nursery.pid, signal.SIGKILL)
            seats.close()
