"""The process that dies, from the outside: started or forked, heard, killed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import psutil

from chaos.child import Order, Word, encode
from model.port import Subject

ROOT: Final = Path(__file__).resolve().parent.parent
PATIENCE_S: Final = 20.0
"""How long a process may take to reach its hook, or to end: far more than either needs on a loaded machine."""


def patience() -> float:
    """Seconds that a courier or a receiver waits for its peer: it gives up before the harness gives up on it."""
    return PATIENCE_S / 2


class Unanswered(Exception):
    """The experiment came to no answer, and nothing shows that the module under test is at fault; one line says why."""


class Deadly(Protocol):
    """What has to be known of an experiment to let a process perform it."""

    def order(self, module: Path, path: Path) -> Order: ...


class Victim(Protocol):
    """A process that stands still somewhere, or will; it leads a session of its own."""

    @property
    def pid(self) -> int: ...
    def line(self, what: str) -> bytes:
        """The line that it says when it has reached ``what``; empty if it ends without one."""

    def status(self) -> int:
        """How it ended, once it has: the negative number of a signal, or its exit status."""

    def offspring(self) -> list[psutil.Process]:
        """The processes that it has started, and theirs."""

    def last_error(self) -> str: ...


def hear(child: Victim) -> Word:
    """What the process has to say; Unanswered if it ends, or hangs, without a word."""
    return Word(**json.loads(listen(child, "its hook")))


def listen(child: Victim, what: str) -> bytes:
    """The next line that the process says when it has reached ``what``; Unanswered if it ends, or hangs, before."""
    if line := child.line(what):
        return line
    raise ended(child, what)


def ended(child: Victim, what: str) -> Unanswered:
    """Of a process that is at its end already, how that came."""
    status, last = child.status(), child.last_error()
    return Unanswered(f"the process ended before {what}, with status {status}{last and f': {last}'}")


def kill(child: Victim) -> None:
    """SIGKILL, and the proof that this is what ended the process and that nothing of it is left."""
    try:
        victim = psutil.Process(child.pid)
        offspring = child.offspring()
        victim.kill()
    except psutil.NoSuchProcess:
        raise Unanswered(f"the process ended before it was killed, with status {child.status()}") from None
    status = child.status()
    for process in offspring:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if status != -signal.SIGKILL or psutil.pid_exists(child.pid):
        raise Unanswered(f"the process was not ended by SIGKILL, but with status {status}")
    if end_group(child.pid) or offspring:
        raise Unanswered(f"the process had started {len(offspring) or 'some'} other processes")


def end_group(pid: int) -> bool:
    """Kill what is left of the group that a dead process led; whether anything was."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
        return True
    return False


def _await(file: IO[bytes], what: str) -> None:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    if not poll.poll(PATIENCE_S * 1000):
        raise Unanswered(f"the process has not {what} after {PATIENCE_S:g} s")


def last_line(errors: IO[bytes], start: int = 0) -> str:
    """The last line that a process has printed among its errors, since ``start``."""
    errors.seek(start)
    return errors.read().decode(errors="replace").strip().rpartition("\n")[2]


# --- a fresh interpreter ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Child:
    """The process that dies, the pipe that its word comes from, and the file that its errors go to."""

    process: subprocess.Popen[bytes]
    words: IO[bytes]
    errors: IO[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, what: str) -> None:
        _await(self.words, f"reached {what}")

    def line(self, what: str) -> bytes:
        self.wait(what)
        return self.words.readline()

    def status(self) -> int:
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Unanswered(f"the process has not ended after {PATIENCE_S:g} s") from None

    def offspring(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def last_error(self) -> str:
        return last_line(self.errors)


@contextlib.contextmanager
def started(experiment: Deadly, subject: Subject[Any, Any], module: Path) -> Iterator[Child]:
    """A fresh interpreter that carries out the experiment's operation; it is dead when the context ends."""
    with running("chaos.child") as child:
        tell(child, encode(experiment.order(module, subject.path)))
        yield child


def tell(child: Child, line: bytes) -> None:
    """Write to the process; if it is dead already, the next ``listen`` says so."""
    with contextlib.suppress(BrokenPipeError):
        cast("IO[bytes]", child.process.stdin).write(line)


@contextlib.contextmanager
def running(module: str, *arguments: str) -> Iterator[Child]:
    """A fresh interpreter that runs a module of ours; it is dead when the context ends.

    Never a fork: a copy of this process's connections would take their locks and journals along when it closes them.
    It has a session of its own, so that a Ctrl-C is this process's to handle.
    """
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - our own modules
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Child(process, cast("IO[bytes]", process.stdout), errors)
        finally:
            process.kill()
            process.wait()  # where an interrupt is on its way, the context of Popen gives up after a moment
