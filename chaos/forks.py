"""Processes that die, from a fork server: the same from the outside as a fresh interpreter, and ten times as fast."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from chaos import killer
from chaos.child import encode
from chaos.killer import Child, Deadly, Unanswered, end_group, ended, hear, last_line, running, tell
from model.contract import Kind
from model.port import Subject

SOON_S: Final = 0.01


class Unsafe(Exception):
    """The module must not be forked once it is imported; one line says why."""


@dataclass(slots=True)
class Server:
    """The process that forks: it has imported the module and never opened an SQLite connection."""

    process: Child
    said: bytes = b""
    dead: int = 0

    def line(self) -> bytes:
        """The next line, without its end. A ``readline`` would read each byte by itself: the pipe has no buffer."""
        while b"\n" not in self.said:
            self.process.wait("its hook")
            part = os.read(self.process.words.fileno(), 65536)
            if not part:
                raise ended(self.process, "its hook")
            self.said += part
        line, _, self.said = self.said.partition(b"\n")
        return line

    def speaks(self, within_s: float) -> bool:
        """Whether it says something, or ends, within that time."""
        return b"\n" in self.said or bool(select.select([self.process.words], [], [], within_s)[0])

    def child(self) -> int:
        """The pid of the process that it has forked last; 0 if there is none."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children()
            return max(children, key=psutil.Process.create_time).pid if children else 0
        return 0


Forkserver = Callable[[Kind, Path], Server | None]
"""A server for the module, or None where it must not be forked."""


@dataclass(slots=True)
class Forked:
    """A process that a server has forked: it says its own word, the server says how it died, both with its pid."""

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
        """The kernel is asked first whether there are any: to look through all processes costs as much as a kill."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if not _first_bytes(f"/proc/{self.pid}/task/{self.pid}/children"):
                return []
        return psutil.Process(self.pid).children(recursive=True)

    def last_error(self) -> str:
        return last_line(self.server.process.errors, self.errors_from)

    def find(self) -> int:
        """Its pid, though it may hang on the way to its word, or not even be born yet; 0 if it never is."""
        end = time.monotonic() + killer.PATIENCE_S
        with contextlib.suppress(Unanswered):
            while not self.pid and time.monotonic() < end:
                self.pid = self.server.child()
                if not self.pid and self.server.speaks(SOON_S):
                    self._listen()
        return self.pid

    def _listen(self) -> None:
        pid, _, what = self.server.line().partition(b" ")
        if int(pid) == self.server.dead:
            return  # from a process that the last one had forked: it is dead as well
        self.pid = int(pid)
        if what.startswith(b"{"):
            self.word = what
        else:
            self.died, self.server.dead = int(what), self.pid


def _first_bytes(path: str) -> bytes:
    """Without the objects that Python makes of a file: this is done for each kill."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 64)
    finally:
        os.close(file)


@contextlib.contextmanager
def serving(kind: Kind, module: Path) -> Iterator[Server]:
    """A fork server for the module; it is dead when the context ends. Unsafe or Unanswered if there can be none."""
    with running("chaos.forkserver", kind.name, str(module)) as child:
        word = hear(child)
        if word.what == "unsafe":
            raise Unsafe(word.text)
        if word.what != "ready":
            raise Unanswered(word.text)
        yield Server(child)


@contextlib.contextmanager
def forked(server: Server, experiment: Deadly, subject: Subject[Any, Any], module: Path) -> Iterator[Forked]:
    """A forked process that carries out the experiment's operation; it is dead when the context ends."""
    victim = Forked(server, os.fstat(server.process.errors.fileno()).st_size)
    try:
        tell(server.process, encode(experiment.order(module, subject.path)))
        yield victim
    finally:
        _end(victim)


def _end(victim: Forked) -> None:
    """See that a forked process is dead, however it came to that."""
    if victim.died is None and (pid := victim.find()):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, and the server has not said so yet
            process = psutil.Process(pid)
            if process.ppid() == victim.server.process.pid:
                process.kill()
        victim.status()
    if victim.pid:
        end_group(victim.pid)
