"""The inbox: ``python -m chaos.inbox`` takes deliveries over HTTP and keeps each once, in a SQLite file of its own.

Its first word is the port. A script names the inbox file and says how each request that comes from then on is treated.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import sqlite3
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from chaos.wire import Say, acknowledgement, ear, mouth

Hold = Literal["before the commit", "after the commit", "before the answer", "within the answer"]
Answer = Literal["acknowledged", "wrong body", "cut off", "reset"]
Kept = Literal["new", "known", "other", "not kept"]
"""What became of a delivery: its first commit; there already; there with another quantity; left out of the inbox."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How one request is treated: its answer (a number: that status), whether it is committed, where it stands.

    ``cut off``: half of the body that was announced, then the end. ``reset``: no answer, the connection is torn down.
    Where there is a ``hold`` the request stands there until it is told to go on.
    """

    answer: Answer | int = "acknowledged"
    commits: bool = True
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the request log: the body as it came, and what became of the delivery.

    ``came`` and ``committed`` are when (``time.monotonic_ns``); ``answer`` is what the request was answered.
    """

    body: str
    kept: Kept = "not kept"
    came: int = field(default=0, compare=False)
    committed: int = field(default=0, compare=False)
    answer: str = field(default="", compare=False)


# --- the inbox --------------------------------------------------------------------------------------------------------

SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS effect (one INTEGER PRIMARY KEY CHECK (one = 1), total INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO effect VALUES (1, 0)",
)
WAIT_S: Final = 20.0


class Inbox(NamedTuple):
    """What an inbox file holds: each delivery once, and the effect, which every new one adds its quantity to."""

    rows: tuple[tuple[str, int], ...] = ()
    total: int = 0


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as con:
        con.execute("BEGIN IMMEDIATE").close()
        yield con
        con.execute("COMMIT").close()


def create(path: str | Path) -> None:
    """Make the tables where they are missing; what an inbox holds stays."""
    with _opened(path) as con:
        for sql in SCHEMA:
            con.execute(sql).close()


def take(path: str | Path, job_id: str, qty: int) -> Kept:
    """Commit one delivery, row and effect together: the second one of the same id changes nothing."""
    with _opened(path) as con:
        known = con.execute("SELECT qty FROM inbox WHERE id = ?", (job_id,)).fetchall()
        if not known:
            con.execute("INSERT INTO inbox VALUES (?, ?)", (job_id, qty)).close()
            con.execute("UPDATE effect SET total = total + ?", (qty,)).close()
            return "new"
    return "known" if known == [(qty,)] else "other"


def read(path: str | Path) -> Inbox:
    """What is committed, over a connection of its own."""
    with _opened(path) as con:
        rows = con.execute("SELECT id, qty FROM inbox ORDER BY id").fetchall()
        ((total,),) = con.execute("SELECT total FROM effect").fetchall()
    return Inbox(tuple(rows), total)


# --- one script -------------------------------------------------------------------------------------------------------


class Episode:
    """One script being played: the requests that have come, counted from 1, and those that stand."""

    def __init__(self, say: Say, path: str, turns: tuple[Turn, ...] = ()) -> None:
        self._say, self._path, self._turns = say, path, turns
        self._requests: list[Request] = []
        self._inside = 0
        self._change = threading.Condition()
        self._gates: defaultdict[int, threading.Event] = defaultdict(threading.Event)

    @contextlib.contextmanager
    def visit(self, body: str) -> Iterator[int]:
        """The number of this request, which is in the log from here on."""
        with self._change:
            self._requests.append(Request(body, came=time.monotonic_ns()))
            number = len(self._requests)
            self._inside += 1
        try:
            yield number
        finally:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    def turn(self, number: int) -> Turn:
        """How this request is treated; those that the script does not reach are kept and acknowledged."""
        return self._turns[number - 1] if number <= len(self._turns) else Turn()

    def stand(self, number: int, where: Hold) -> None:
        """If this is where the request has to stand: say so, and return when it may go on."""
        if self.turn(number).hold == where:
            self._say("stands", number, where)
            self._gates[number].wait()

    def keep(self, number: int, event: Mapping[str, Any]) -> Kept:
        """Commit, and then note down what became of it."""
        kept = take(self._path, event["id"], event["qty"])
        self._note(number, kept=kept, committed=time.monotonic_ns())
        return kept

    def answers(self, number: int, answer: Answer | int) -> None:
        """Note down what this request is answered."""
        self._note(number, answer=str(answer))

    def _note(self, number: int, **what: Any) -> None:  # noqa: ANN401 - fields of a Request
        self._requests[number - 1] = replace(self._requests[number - 1], **what)

    def release(self, number: int) -> None:
        """Let this request go on, now or as soon as it stands."""
        self._gates[number].set()

    def log(self) -> list[Request]:
        """The request log, once every request that has come has ended."""
        with self._change:
            self._change.wait_for(lambda: not self._inside)
            return list(self._requests)


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Receiver(socketserver.ThreadingTCPServer):
    """On the loopback, a thread a request. Not an HTTPServer: that asks the resolver for the name of the host."""

    daemon_threads = True

    def __init__(self, say: Say) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.episode = Episode(say, "")


class Handler(BaseHTTPRequestHandler):
    """One request: keep its delivery and acknowledge it, or what its turn says instead."""

    @property
    def _episode(self) -> Episode:
        return cast("Receiver", self.server).episode

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        episode = self._episode
        with episode.visit(body) as number, contextlib.suppress(ConnectionError):  # who has gone hears nothing
            event = _event(body)
            turn = episode.turn(number) if event else Turn(400, commits=False)
            episode.stand(number, "before the commit")
            kept = episode.keep(number, event) if turn.commits else "not kept"
            episode.stand(number, "after the commit")
            episode.stand(number, "before the answer")
            answer = 409 if kept == "other" else turn.answer
            episode.answers(number, answer)
            self._answer(answer, event, number)

    def _answer(self, answer: Answer | int, event: Mapping[str, Any], number: int) -> None:
        if answer == "reset":
            self._reset()
        elif isinstance(answer, int):
            self._send(answer, f"{answer}\n".encode(), number)
        elif answer == "wrong body":
            self._send(200, acknowledgement({**event, "qty": event["qty"] + 1}), number)
        else:
            self._send(200, acknowledgement(event), number, whole=answer != "cut off")

    def _send(self, status: int, body: bytes, number: int, *, whole: bool = True) -> None:
        half = len(body) // 2
        with contextlib.suppress(ConnectionError):  # who has given up hears nothing; the request stands all the same
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:half])
        self._episode.stand(number, "within the answer")
        if whole:
            self.wfile.write(body[half:])

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())  # at once: the server's own way of closing says goodbye first

    def log_message(self, *_: object) -> None:
        """Nothing: the request log is the episode's."""


def _event(body: str) -> dict[str, Any]:
    """The delivery that ``body`` is, of exactly id and qty; empty if it is none."""
    try:
        event = json.loads(body)
    except ValueError:
        return {}
    formed = type(event) is dict and set(event) == {"id", "qty"}
    return event if formed and type(event["id"]) is str and type(event["qty"]) is int else {}


# --- orders -----------------------------------------------------------------------------------------------------------


def main() -> None:
    """Serve, and obey the orders ``script``, ``go`` and ``log`` until stdin closes."""
    say = mouth()
    server = Receiver(say)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say("port", server.server_address[1])
    for order in ear():
        match order:
            case ["script", str(path), list(turns)]:
                create(path)
                server.episode = Episode(say, path, tuple(Turn(**turn) for turn in turns))
                say("ready")
            case ["go", int(number)]:
                server.episode.release(number)
            case ["log"]:
                say("log", [asdict(request) for request in server.episode.log()])


if __name__ == "__main__":
    main()
