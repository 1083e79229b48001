"""The process that dies, from the outside: started, heard, killed."""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

import psutil

from chaos.child import Order, Word, encode
from chaos.experiments import Experiment
from model.port import Queue

ROOT: Final = Path(__file__).resolve().parent.parent
PATIENCE_S: Final = 20.0
"""How long a process may take to reach its hook, or to end: far more than either needs on a loaded machine."""


class Unanswered(Exception):
    """The experiment came to no answer, and nothing shows that the module under test is at fault; one line says why."""


@dataclass(frozen=True, slots=True)
class Child:
    """The process that dies, the pipe that its word comes from, and the file that its errors go to."""

    process: subprocess.Popen[bytes]
    words: IO[bytes]
    errors: IO[bytes]


@contextlib.contextmanager
def started(experiment: Experiment, queue: Queue, module: Path) -> Iterator[Child]:
    """A fresh interpreter that carries out the experiment's operation; it is dead when the context ends.

    Never a fork: a copy of this process's connections would take their locks and journals along when it closes them.
    It has a session of its own, so that a Ctrl-C is this process's to handle.
    """
    order = Order(str(module), str(queue.path), repr(experiment.op), experiment.hook.name, experiment.tight)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-m", "chaos.child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            start_new_session=True,
        ) as process,
    ):
        try:
            with contextlib.suppress(BrokenPipeError):  # it is dead already: hear() says so
                cast("IO[bytes]", process.stdin).write(encode(order))
            yield Child(process, cast("IO[bytes]", process.stdout), errors)
        finally:
            process.kill()


def hear(child: Child) -> Word:
    """What the process has to say; Unanswered if it ends, or hangs, without a word."""
    with selectors.DefaultSelector() as selector:
        selector.register(child.words, selectors.EVENT_READ)
        if not selector.select(PATIENCE_S):
            raise Unanswered(f"the process has not reached its hook after {PATIENCE_S:g} s")
    if line := child.words.readline():
        return Word(**json.loads(line))
    child.errors.seek(0)
    last = child.errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    raise Unanswered(f"the process ended before its hook, with status {_status(child)}{last and f': {last}'}")


def kill(child: Child) -> None:
    """SIGKILL, and the proof that this is what ended the process and that nothing of it is left."""
    victim = psutil.Process(child.process.pid)
    offspring = victim.children(recursive=True)
    victim.kill()
    status = _status(child)
    for process in offspring:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if status != -signal.SIGKILL or victim.is_running():
        raise Unanswered(f"the process was not ended by SIGKILL, but with status {status}")
    if offspring:
        raise Unanswered(f"the process had started {len(offspring)} other processes")


def _status(child: Child) -> int:
    try:
        return child.process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"the process has not ended after {PATIENCE_S:g} s") from None
