"""One session of a storm of receivers, seen by its publisher: what is sent, what must come back, and what is left."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from chaos import killer
from chaos.chronicle import Noted
from chaos.killer import Unanswered
from chaos.receiver import RETURNS
from chaos.stream_aftermath import Reading
from chaos.stream_weather import Course, End, last_line
from chaos.tcp import reset
from model.contract import CONFLICT, LOCKED, Raise
from model.counterexample import show
from model.events import BAD_LINE, GAP, ack_line, event_line, resume_line

MUST_RAISE: Final[dict[End, Raise]] = {"skips": GAP, "contradicts": CONFLICT, "babbles": BAD_LINE}


NEVER: Final = tuple(show(error) for error in (GAP, CONFLICT))
"""What no session may raise that was sent nothing but the log."""


class Wrong(Exception):
    """The receiver does what it must not; one line says what, and what it must do."""


class Session:
    """One connection: ``must`` is all that may come, in order, of which ``got`` lines have come.

    ``found`` is the last event that was committed before, ``sent`` the last that was sent, ``acked`` the last that was
    acknowledged, ``left`` the last that is committed in the end. With ``strike_at`` set, ``strike`` is called as soon
    as so many bytes are sent, or at the end.
    """

    def __init__(
        self, line: socket.socket, random: Random, log: Sequence[tuple[int, int]], found: int, reading: Reading
    ) -> None:
        self._line, self._random, self._log, self._reading = line, random, log, reading
        self.found = self.sent = self.acked = self.left = found
        self.must, self.got, self.again = [resume_line(found)], 0, 0
        self.strike_at: int | None = None
        self.strike: Callable[[], None] = lambda: None
        self.noted: list[Noted] = []
        self._how = Course(0, 0, 1, 1, "finishes")
        self._first, self._bytes, self._unread, self._tail = found + 1, 0, b"", b""
        line.settimeout(killer.PATIENCE_S)

    def __str__(self) -> str:
        how = self._how
        sent = f"sent {self._first}..{self.sent}, {how.window} at once" if len(self.must) > 1 else "sent nothing"
        tail = f", then {self._tail!r}" if self._tail else ""
        last = f", the last {self.must[self.got - 1]!r}" if self.got else ""
        return f"found {self.found}; {sent}{tail}, {how.end}; got {self.got} of {len(self.must)} lines{last}"

    # --- what is said -------------------------------------------------------------------------------------------------

    def hold(self, how: Course) -> None:
        """The session, to the end of the connection."""
        self._how, self._first = how, self.found + 1 - how.back
        self._strike()
        if self._read(1):
            self._publish(range(self._first, self.found + 1 + how.fresh))
        self._end()
        if self.strike_at is not None:
            self.strike_at = 0
            self._strike()
        self._read()

    def _publish(self, seqs: range) -> None:
        """Window after window; the next is sent when the one before is acknowledged."""
        window, waits = self._how.window, self._how.end in ("closes", *MUST_RAISE)
        for start in range(0, len(seqs), window):
            part = seqs[start : start + window]
            self.sent = max(self.sent, part[-1])
            self.must += [ack_line(seq) for seq in part]
            self._say(b"".join(event_line(*self._log[seq]) for seq in part))
            if (waits or part[-1] != seqs[-1]) and not self._read(len(self.must)):
                return

    def _say(self, data: bytes) -> None:
        """In several segments; who is gone hears nothing."""
        first, *more = data.splitlines(keepends=True)
        self._note("send", f"sends {first!r}{f' and {len(more)} more lines' if more else ''}")
        cuts = sorted(self._random.sample(range(1, len(data)), min(self._how.pieces, len(data)) - 1))
        for start, end in itertools.pairwise((0, *cuts, len(data))):
            with contextlib.suppress(OSError):
                self._line.sendall(data[start:end])
            self._bytes += end - start
            self._strike()

    def _strike(self) -> None:
        if self.strike_at is not None and self._bytes >= self.strike_at:
            self.strike_at = None
            self.strike()

    def _end(self) -> None:
        """The publisher's last act; after a wrong line there may follow a right one, that is no longer to be read."""
        self._tail = last_line(self._random, self._how.end, self._log, self.sent + 1)
        if self._tail and self._how.end in MUST_RAISE and self._random.random() < 0.5:
            self._tail += event_line(*self._log[self.sent + 1])
        if self._tail:
            self._say(self._tail)
        with contextlib.suppress(OSError):
            if self._how.end == "resets":
                reset(self._line)
            elif self._how.end == "leaves":
                self._line.close()
            else:
                self._line.shutdown(socket.SHUT_WR)

    # --- what is heard ------------------------------------------------------------------------------------------------

    def _read(self, want: float = float("inf")) -> bool:
        """Until so many lines have come; False if the connection ends before."""
        while self.got < want:
            try:
                part = self._line.recv(65536)
            except TimeoutError:
                raise Unanswered(f"the receiver says nothing for {killer.PATIENCE_S:g} s") from None
            except OSError:
                return False
            if not part:
                return False
            self._take(part)
        return True

    def _take(self, part: bytes) -> None:
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            must = self.must[self.got] if self.got < len(self.must) else None
            if line + b"\n" != must:
                raise Wrong(f"run_client sends {line!r}, must send {repr(must) if must else 'nothing'} there")
            self.got += 1
            if self.got > 1:
                seq = int(line.split()[1])
                self.again += seq <= self.found
                self.acked = max(self.acked, seq)
        self._committed()

    def _committed(self) -> None:
        """What was acknowledged is committed, and what was not sent is not."""
        last = self._reading.last()
        if not self.acked <= last <= self.sent:
            raise Wrong(f"event {self.acked} is acknowledged when the file is at {last}; sent was up to {self.sent}")
        if self.got > 1:
            self._note("commit", f"event {self.acked} is acknowledged, the file is at {last}")

    def _note(self, kind: str, text: str) -> None:
        self.noted.append(Noted(time.monotonic_ns(), kind, text))

    # --- what is left -------------------------------------------------------------------------------------------------

    def judge(self, reply: str, *, killed: bool) -> None:
        """What has come of it: ``reply`` is how ``run_client`` ended, if it did."""
        self.left = self._reading.whole()
        if not self.acked <= self.left <= self.sent:
            raise Wrong(f"the file is at {self.left}: acknowledged was {self.acked}, sent was up to {self.sent}")
        end, returned = self._how.end, RETURNS.format((self.left, self._reading.total(self.left)))
        if killed or reply == show(LOCKED):
            return
        if end in ("leaves", "resets"):
            if reply != returned and (reply in NEVER or not reply.startswith("raises ")):
                raise Wrong(f"run_client {reply}, must be: {returned}, or the connection's error")
            return
        if self.got < len(self.must):
            raise Wrong(f"run_client {reply}, and has not sent {self.must[self.got]!r}")
        must = show(MUST_RAISE[end]) if end in MUST_RAISE and self._tail else returned
        if reply != must if end != "cuts off" else not reply.startswith("raises "):
            raise Wrong(f"run_client {reply}, must be: {must if end != 'cuts off' else 'an error'}")
        if self.left != self.sent:
            raise Wrong(f"run_client {reply}, and the file is at {self.left}, must be at {self.sent}")
