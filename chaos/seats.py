"""The processes of a storm from the outside: seats, and who sits on them, one process after another."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from chaos.killer import Child, Unanswered, running, tell
from chaos.stormer import CLOCK, Fate, Post, line
from chaos.wire import encode
from model.history import gone_line, note_line

Doing = Literal["starting", "idle", "busy", "sends", "stopped"]
Patience = Literal["held", "settled", "long"]

START_MS: Final = 1000
MOST_SKEW_MS: Final = 3
"""How far the clocks of two processes are apart: nothing in the contract depends on it, but the order of times does."""


@dataclass(slots=True, eq=False)
class Seat:
    """A place at the queue: one process after another sits on it, each under a name of its own.

    ``ticket`` is the job and the token that it holds, ``stop`` where it said that it would stop, ``late`` whether it
    has slept past its lease. ``rests``: it has found nothing to do. ``patience``: whether it sleeps until another holds
    its job, has finished it, or until all are still. ``waits_for`` is who has to be idle before this one may go on.
    """

    title: str
    random: Random
    owners: tuple[str, ...]
    lives: int = 0
    pid: int = 0
    orders: int = -1
    doing: Doing = "starting"
    rests: bool = False
    stop: str = ""
    late: bool = False
    ticket: tuple[str, int] = ("", 0)
    lease_until: int = 0
    rouse_at: int = 0
    patience: Patience = "held"
    waits_for: Seat | None = None

    @property
    def name(self) -> str:
        return f"{self.title}-{self.lives}"


class Seats:
    """All processes but the receiver. The clock is theirs: ms in a file that only this process writes."""

    def __init__(self, nursery: Child, folder: Path, port: int) -> None:
        self._nursery, self._folder, self._port = nursery, folder, port
        self._history = (folder / "gone.history").open("a")
        self._clock = _clock(folder / "clock")
        self._unread = b""
        self.by_name: dict[str, Seat] = {}
        self.now_ms = START_MS
        self.advance(0)

    def close(self) -> None:
        self._history.close()
        self._clock.close()
        for seat in self.by_name.values():
            if seat.orders >= 0:
                os.close(seat.orders)

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self._clock[:] = CLOCK.pack(self.now_ms)
        self._note("", "clock", now_ms=self.now_ms)

    def _note(self, name: str, what: str, **more: int | str) -> None:
        self._history.write(note_line(name, what, time.monotonic_ns(), **more))

    # --- a process ----------------------------------------------------------------------------------------------------

    def start(self, seat: Seat) -> None:
        """Have another process started on this seat."""
        seat.lives += 1
        seat.doing, seat.pid, seat.ticket, seat.stop, seat.late, seat.waits_for = (
            "starting",
            0,
            ("", 0),
            "",
            False,
            None,
        )
        fifo = self._folder / f"{seat.name}.orders"
        os.mkfifo(fifo)
        if seat.orders >= 0:
            os.close(seat.orders)
        seat.orders = os.open(fifo, os.O_RDWR)
        self.by_name[seat.name] = seat
        owner = seat.random.choice(seat.owners) if seat.owners else ""
        post = Post(
            name=seat.name,
            owner=owner,
            queue=str(self._folder / "queue.db"),
            history=str(self._folder / f"{seat.name}.history"),
            orders=str(fifo),
            clock=str(self._folder / "clock"),
            skew_ms=seat.random.randrange(MOST_SKEW_MS + 1),
            port=self._port,
        )
        self._note(seat.name, "starts", seat=seat.title, owner=owner, skew_ms=post.skew_ms)
        tell(self._nursery, line(post))

    def born(self, seat: Seat, pid: int) -> None:
        """Its process is there."""
        seat.pid = pid
        self._note(seat.name, "born", pid=pid)

    def tell(self, seat: Seat, fate: Fate) -> None:
        """Let it go on, with this."""
        seat.doing, seat.rests = "busy", False
        os.write(seat.orders, line(fate))

    def rouse(self, seat: Seat) -> None:
        """SIGCONT to a process that has stopped; it may have been struck before, and its death not been heard yet."""
        seat.doing, seat.stop = "busy", ""
        self._note(seat.name, "wakes")
        self._signal(seat, signal.SIGCONT)

    def strike(self, seat: Seat) -> None:
        """SIGKILL, wherever it may be; ``died`` is heard later."""
        self._note(seat.name, "struck")
        self._signal(seat, signal.SIGKILL)

    def _signal(self, seat: Seat, number: int) -> None:
        """By the one who would know if it were dead, and its pid nobody's or another's."""
        tell(self._nursery, encode(seat.pid, number))

    def bury(self, seat: Seat) -> None:
        """Write down that it is gone."""
        self._history.write(gone_line(seat.name, time.monotonic_ns()))
        self._history.flush()
        del self.by_name[seat.name]

    # --- what they say ------------------------------------------------------------------------------------------------

    def words(self, within_s: float) -> list[list[Any]]:
        """What was said since, in order, the first of each is the name; empty if nobody says anything in time."""
        poll = select.poll()
        poll.register(self._nursery.words, select.POLLIN)
        if not poll.poll(within_s * 1000):
            return []
        part = os.read(self._nursery.words.fileno(), 65536)
        if not part:
            raise Unanswered(f"the process that forks has ended: {self._nursery.last_error()}")
        *lines, self._unread = (self._unread + part).split(b"\n")
        return [json.loads(text) for text in lines]

    def of(self, pid: int) -> Seat | None:
        return next((seat for seat in self.by_name.values() if seat.pid == pid), None)


def _clock(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(CLOCK.size))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), CLOCK.size)


@contextlib.contextmanager
def seated(module: Path, folder: Path, port: int) -> Iterator[Seats]:
    """The process that forks, ready; all that it has forked are dead when the context ends."""
    with running("chaos.nursery", str(module)) as nursery:
        seats = Seats(nursery, folder, port)
        try:
            yield seats
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(nursery.pid, signal.SIGKILL)
            seats.close()
