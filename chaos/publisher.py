"""The publisher: ``python -m chaos.publisher MODULE`` keeps a log of events and sends over TCP what it is told to.

Its first word is the port. It notes down whatever it sees, in order: that a connection has come, each line, the end.
What it retains of its log it hands out by the ``replay`` of the module at MODULE.

====================  =================================================================================================
order                 what it does
====================  =================================================================================================
begin EVENTS          forget everything; this is the log, all of it retained; says ``ready``
retain FIRST LAST     of the log, only the events from the first to the last of these are left
look away             the next connection is accepted, and not read
look                  it is read after all
send NUMBER TEXT      send the text over this connection
replay NUMBER LIMIT   send what the module hands out to the cursor that came over this connection, batch after batch;
                      says ``replayed``, the events, and ``well``, or what was wrong: then the connection is finished
finish NUMBER         nothing more is sent over this connection; what comes is still read
close NUMBER          nothing more is read either
notes                 says ``notes``: all that was seen since ``begin``
====================  =================================================================================================
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from chaos.tcp import listening, port_of, taken
from chaos.wire import Say, ear, mouth
from model.events import event_line
from model.port import raised
from model.store import Client, Store, load

CAME, SAW, END = "connected", "saw", "end"
WELL: Final = "well"
"""How a replay ends that has handed out all there is."""


class Note(NamedTuple):
    """What the publisher saw of one connection; ``text`` is the line, or how the connection ended."""

    what: str
    number: int
    text: str = ""


class Publisher:
    """The log, the connections by number, from 1 on, and what was seen of each."""

    def __init__(self, client: Client, say: Say) -> None:
        self._client, self._say = client, say
        self._listener = listening()
        self._lock = threading.Lock()
        self._looks = threading.Event()
        self._begin([])

    @property
    def port(self) -> int:
        return port_of(self._listener)

    def _begin(self, log: list[list[int]]) -> None:
        """A connection that is left from before is read to its end, and nobody hears of it."""
        self._log = [(seq, delta) for seq, delta in log]
        self._lines: list[socket.socket] = []
        self._notes: list[Note] = []
        self._looks.set()

    def accept(self) -> None:
        """Take every connection that comes, and read it in a thread of its own; for ever."""
        while True:
            line = taken(self._listener)
            with self._lock:
                self._lines.append(line)
                notes, number = self._notes, len(self._lines)
            self._see(notes, Note(CAME, number))
            threading.Thread(target=self._read, args=(notes, number, line), daemon=True).start()

    def _read(self, notes: list[Note], number: int, line: socket.socket) -> None:
        self._looks.wait()
        how = "closed"
        try:
            for text in _lines(line):
                self._see(notes, Note(SAW, number, text.decode("latin-1")))
        except OSError as error:
            how = type(error).__name__
        self._see(notes, Note(END, number, how))

    def _see(self, notes: list[Note], note: Note) -> None:
        with self._lock:
            notes.append(note)
            if notes is self._notes:
                self._say(*note)

    # --- orders -------------------------------------------------------------------------------------------------------

    def obey(self, order: list[Any]) -> None:
        """One order, as the table says."""
        match order:
            case ["begin", list(log)]:
                with self._lock:
                    self._begin(log)
                self._say("ready")
            case ["retain", int(first), int(last)]:
                self._log = [event for event in self._log if first <= event[0] <= last]
            case ["look away"]:
                self._looks.clear()
            case ["look"]:
                self._looks.set()
            case ["send", int(number), str(text)]:
                self._send(number, text.encode("latin-1"))
            case ["replay", int(number), int(limit)]:
                self._replay(number, limit)
            case ["finish" | "close" as how, int(number)]:
                self._leave(number, socket.SHUT_WR if how == "finish" else socket.SHUT_RDWR)
            case ["notes"]:
                with self._lock:
                    self._say("notes", self._notes)
            case _:
                raise ValueError(f"no order for a publisher: {order}")

    def _send(self, number: int, data: bytes) -> None:
        """Who has gone hears nothing; who leaves it unread for too long hears no more."""
        with contextlib.suppress(OSError):
            self._lines[number - 1].sendall(data)

    def _leave(self, number: int, how: int) -> None:
        with contextlib.suppress(OSError):
            self._lines[number - 1].shutdown(how)

    def _replay(self, number: int, limit: int) -> None:
        """A batch that does not lead on would come again for ever."""
        cursor, sent, how = self._cursor(number), list[tuple[int, int]](), WELL
        try:
            while how == WELL and (batch := self._client.replay(self._log, cursor, limit)):
                for seq, delta in batch:
                    self._send(number, event_line(seq, delta))
                    sent.append((seq, delta))
                how = WELL if sent[-1][0] > cursor else "what does not lead on"
                how = how if len(batch) <= limit else f"{len(batch)} at once"
                cursor = sent[-1][0]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the module's
            how = raised(Store(self._client, Path()), error, None).error
        self._say("replayed", sent, how)
        if how != WELL:
            self._leave(number, socket.SHUT_WR)

    def _cursor(self, number: int) -> int:
        """What the receiver has asked for over this connection."""
        with self._lock:
            return next(int(note.text.split()[1]) for note in self._notes if note[:2] == (SAW, number))


def _lines(line: socket.socket) -> Iterator[bytes]:
    """Each line as it comes, at last perhaps a fragment."""
    unread = b""
    while part := line.recv(65536):
        *whole, unread = (unread + part).split(b"\n")
        for text in whole:
            yield text + b"\n"
    if unread:
        yield unread


def main() -> None:
    """Obey orders until stdin closes."""
    say = mouth()
    publisher = Publisher(load(sys.argv[1]), say)
    say("port", publisher.port)
    threading.Thread(target=publisher.accept, daemon=True).start()
    for order in ear():
        publisher.obey(order)


if __name__ == "__main__":
    main()
