"""The publisher's end of TCP: where receivers connect to, and how a connection is left."""

from __future__ import annotations

import socket
import struct
from typing import Final

HOST: Final = "127.0.0.1"
SEND_S: Final = 20
"""How long the other side may leave unread what it was sent."""


def listening() -> socket.socket:
    """A socket on a port of its own, at which connections wait to be accepted."""
    listener = socket.socket()
    listener.bind((HOST, 0))
    listener.listen(8)
    return listener


def port_of(listener: socket.socket) -> int:
    """Where to connect to."""
    return int(listener.getsockname()[1])


def taken(listener: socket.socket) -> socket.socket:
    """The next connection; what is sent over it leaves at once, in the segments in which it was sent."""
    line, _ = listener.accept()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
    return line


def reset(line: socket.socket) -> None:
    """Tear the connection down: the other side sees an error, if it sees anything."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()
