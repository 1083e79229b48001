"""Processes that die, from a fork server: the same from the outside as a fresh interpreter, and ten times as fast."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil

from chaos.child import encode
from chaos.killer import Child, Deadly, Unanswered, end_group, hear, last_line, listen, running, tell
from model.queue import Queue


class Unsafe(Exception):
    """The module must not be forked once it is imported; one line says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """The process that forks: it has imported the module and never opened an SQLite connection."""

    process: Child

    def line(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(listen(self.process, "its hook")))


@dataclass(slots=True)
class Forked:
    """A process that a server has forked: the server says when it is born and how it died, it says its own word."""

    server: Server
    errors_from: int
    pid: int = 0
    word: bytes = b""
    died: int | None = None

    def line(self, what: str) -> bytes:  # noqa: ARG002 - there is one thing to reach
        while not self.word and self.died is None:
            self._listen()
        return self.word

    def status(self) -> int:
        while self.died is None:
            self._listen()
        return self.died

    def offspring(self) -> list[psutil.Process]:
        """None: to look for them costs as much as all the rest, and its group shows whether there were any."""
        return []

    def last_error(self) -> str:
        return last_line(self.server.process.errors, self.errors_from)

    def birth(self) -> None:
        while not self.pid:
            self._listen()

    def _listen(self) -> None:
        match self.server.line():
            case {"born": int(pid)}:
                self.pid = pid
            case {"died": int(status)}:
                self.died = status
            case word:
                self.word = json.dumps(word).encode()


@contextlib.contextmanager
def serving(module: Path) -> Iterator[Server]:
    """A fork server for the module; it is dead when the context ends. Unsafe or Unanswered if there can be none."""
    with running("chaos.forkserver", str(module)) as child:
        word = hear(child)
        if word.what == "unsafe":
            raise Unsafe(word.text)
        if word.what != "ready":
            raise Unanswered(word.text)
        yield Server(child)


@contextlib.contextmanager
def forked(server: Server, experiment: Deadly, queue: Queue, module: Path) -> Iterator[Forked]:
    """A forked process that carries out the experiment's operation; it is dead when the context ends."""
    victim = Forked(server, os.fstat(server.process.errors.fileno()).st_size)
    try:
        tell(server.process, encode(experiment.order(module, queue.path)))
        victim.birth()
        yield victim
    finally:
        _end(victim)


def _end(victim: Forked) -> None:
    """See that a forked process is dead, however it came to that."""
    if victim.died is None:
        victim.birth()
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, and the server has not said so yet
            process = psutil.Process(victim.pid)
            if process.ppid() == victim.server.process.pid:
                process.kill()
        victim.status()
        end_group(victim.pid)
