"""A publisher on a real socket, as unfair as it is told to be: it writes down what it does, and all that it hears."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import struct
from typing import Final

from model import steps

PATIENCE: Final = 20.0
"""Seconds after which what has not happened counts as never: far beyond any delay of a busy machine."""

NARROW: Final = 1024
"""Bytes of a small buffer in the kernel: where both sides have one, a few thousand bytes fill them."""

LINGER: Final = struct.pack("ii", 1, 0)

HEAD: Final = (
    "import asyncio, client, socket, struct, threading, time",
    'server = socket.create_server(("127.0.0.1", 0))',
    "async def receive(*args):",
    "    global loop, task",
    "    loop, task = asyncio.get_running_loop(), asyncio.current_task()",
    '    print(await client.run_client("store.db", *server.getsockname(), *args))',
    "def session(*args):",
    "    global thread",
    "    thread = threading.Thread(target=asyncio.run, args=[receive(*args)]); thread.start()",
    "    return server.accept()[0]",
)
"""How each program begins; ``server`` and ``peer`` are the publisher's two sockets."""

REPEATED: Final = re.compile(rb"(.{1,16}?)\1{9,}", re.DOTALL)

DIE_AT: Final = (
    "def die_at(hook, nth, error):",
    "    calls = []",
    "    def fault(name):",
    "        calls.extend([name] * (name == hook))",
    "        if name == hook and len(calls) == nth: raise error()",
    "    return fault",
)

NARROW_HEAD: Final = (f"server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, {NARROW})",)


class Silence(Exception):
    """Nothing came for as long as a check waits; the message says for what it waited."""


class Publisher:
    """One listening socket, and the connection to one receiver at a time.

    ``lines`` is the source that repeats all of it; ``heard`` is what came over the present connection.
    """

    def __init__(self, *, narrow: bool = False) -> None:
        self.server = socket.socket()
        if narrow:
            self.server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(16)
        self.host, self.port = self.server.getsockname()
        self.peer: socket.socket | None = None
        self.heard = b""
        self.over = False
        self.lines = [*HEAD, *(NARROW_HEAD if narrow else ())]
        self._others: list[socket.socket] = []

    def program(self) -> list[str]:
        """What happened so far, whole enough to paste."""
        helpers = DIE_AT if any("die_at(" in line for line in self.lines) else ()
        return [*self.lines[:1], *helpers, *self.lines[1:]]

    # --- connections --------------------------------------------------------------------------------------------------

    def accept(self) -> None:
        """Take the connection that has arrived."""
        self.peer, _ = self.server.accept()
        self.peer.settimeout(PATIENCE)
        self.heard, self.over = b"", False

    def visited(self, *others: socket.socket, wait: float = 0.0) -> bool:
        """Whether a connection has arrived; waits until one has, or one of the other sockets can be read."""
        ready, _, _ = select.select([self.server, *others], [], [], wait)
        return self.server in ready

    def crowd(self) -> None:
        """Let others take every place in the queue of the listening socket, so that no connection is completed."""
        self.server.listen(0)
        self.lines += ["server.listen(0); crowd = [socket.socket() for _ in range(3)]"]
        self.lines += ["for other in crowd: other.setblocking(False); other.connect_ex(server.getsockname())"]
        for _ in range(3):
            self._others.append(socket.socket())
            self._others[-1].settimeout(0)
            self._others[-1].connect_ex((self.host, self.port))

    def disperse(self) -> None:
        """The others leave."""
        while self._others:
            self._others.pop().close()

    def refuse(self) -> None:
        """Keep the port, and listen no more: a connection is refused."""
        self.lines.append("server.close()")
        self.server.close()
        self.server = socket.socket()
        self.server.bind((self.host, self.port))

    def close(self) -> None:
        """Close every socket, whatever the receiver thinks of it; what waits to be accepted is reset."""
        self.disperse()
        self.server.close()
        if self.peer is not None:
            self.peer.close()

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """All of it, unless the receiver has gone."""
        note = ""
        steps.note(f"peer.sendall({shown(data)})")
        try:
            self._peer.sendall(data)
        except OSError as error:
            note = f"  # {type(error).__name__}"
        self.lines.append(f"peer.sendall({shown(data)}){note}")

    def half_close(self) -> None:
        """Say that nothing more will come, and go on reading."""
        self.lines.append("peer.shutdown(socket.SHUT_WR)")
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Close the connection whole; what is unread makes it a reset."""
        self.lines.append("peer.close()")
        self._peer.close()
        self.over = True

    def reset(self) -> None:
        """Break the connection off."""
        self.lines.append('peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); peer.close()')
        self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        self._peer.close()
        self.over = True

    # --- reading ------------------------------------------------------------------------------------------------------

    def hear(self, size: int) -> bytes:
        """The next ``size`` bytes, or fewer if the connection ends before; ``over`` then says so."""
        data, line = b"", f"peer.recv({size}, socket.MSG_WAITALL)"
        try:
            while len(data) < size and not self.over:
                data += self._receive(size - len(data))
        except Silence:
            self.lines.append(f"{line}  # {shown(data)} and then nothing")
            raise
        self.lines.append(f"{line}  # {shown(data)}{' and the end' * self.over}")
        return data

    def hear_out(self) -> bytes:
        """All that is still to come, up to the end of the connection."""
        data = b""
        while not self.over:
            data += self._receive(65536)
        return data

    def hear_pending(self) -> bytes:
        """What has arrived by now."""
        if self.over or not (size := len(self.pending())):
            return b""
        return self.hear(size)

    def pending(self) -> bytes:
        """What has arrived and is not read yet."""
        ready, _, _ = select.select([self._peer], [], [], 0)
        with contextlib.suppress(ConnectionError):
            return self._peer.recv(65536, socket.MSG_PEEK) if ready else b""
        return b""

    @property
    def all_heard(self) -> bytes:
        """What has arrived, read or not."""
        return self.heard + (b"" if self.over else self.pending())

    def _receive(self, size: int) -> bytes:
        """Some bytes; none at the end, be it a close or a reset."""
        try:
            data = self._peer.recv(size)
        except TimeoutError:
            raise Silence("for more bytes") from None
        except ConnectionError:
            data = b""
        self.over = not data
        self.heard += data
        return data

    @property
    def _peer(self) -> socket.socket:
        if self.peer is None:
            raise RuntimeError("the publisher has no connection")
        return self.peer


def shown(data: bytes) -> str:
    """Source for the bytes; where they are many, what repeats stands once."""
    if len(data) <= 80:
        return repr(data)
    pieces, end = [], 0
    for run in REPEATED.finditer(data):
        pieces += [repr(data[end : run.start()])] if run.start() > end else []
        pieces.append(f"{run[1]!r} * {len(run[0]) // len(run[1])}")
        end = run.end()
    return " + ".join([*pieces, repr(data[end:])] if end < len(data) else pieces)
