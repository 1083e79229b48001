"""Runs a program on a module in a fresh process, which says what it changed there; what it must not is a Violation."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from model.contract import Kind
from model.counterexample import Violation
from model.events import event_line
from stateful_tests.ending import Unruly
from stateful_tests.footprint import Order, Word
from stateful_tests.options import ROOT

PATIENCE_S: Final = 20.0
"""No call has so much to do: a lock is waited for one second, a peer five."""
TURN_S: Final = 0.5
SHORTEN_S: Final = 15.0
HANGS: Final = "does not return"

HEAD: Final = {"suppress(": "from contextlib import suppress", "asyncio.": "import asyncio"}


def visit(kind: Kind, module: Path, lines: Sequence[str], folder: Path) -> int:
    """How many lines ran; a Violation with the shortest part of the program that shows it, if one changes what it must
    not.
    """
    numbers = itertools.count()

    def run(program: Sequence[str]) -> Word | None:
        (place := folder / str(next(numbers))).mkdir()
        return _run(kind, module, program, place)

    if (word := run(lines)) is None:
        return len(lines)
    if word.reply:
        raise RuntimeError(f"{lines[word.at]} {word.does}")
    lines = lines[: word.at + 1]
    if HANGS not in word.does:
        lines = _shortened(lines, word, run)
    call = re.sub(r"^with .*?: |^\w+ = |  # .*", "", lines[-1])
    head = [line for text, line in HEAD.items() if any(text in line for line in lines)]
    raise (Unruly if word.unruly else Violation)(f"{call} {word.does}", [*head, *lines])


def _shortened(lines: Sequence[str], word: Word, run: Callable[[Sequence[str]], Word | None]) -> Sequence[str]:
    """Without the lines that the last one does not need to do the same, as many as there is time to try."""
    until = time.monotonic() + SHORTEN_S
    for number in range(len(lines) - 2, 0, -1):
        if time.monotonic() > until:
            break
        fewer = [*lines[:number], *lines[number + 1 :]]
        again = run(fewer)
        if again and (again.at, again.does) == (len(fewer) - 1, word.does):
            lines = fewer
    return lines


def _run(kind: Kind, module: Path, lines: Sequence[str], place: Path) -> Word | None:
    """What the first line that does something wrong does; None if all of them are right."""
    answers, folder, home = place / "answers", place / "folder", place / "home"
    folder.mkdir()
    home.mkdir()
    answers.touch()
    order = Order(kind.name, str(module), str(folder), str(answers), list(lines))
    command = [sys.executable, "-m", "stateful_tests.footprint", json.dumps(asdict(order))]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONWARNINGS", "PYTHONDEVMODE")}
    environment |= {"TMPDIR": str(home), "HOME": str(home)}
    with (place / "out").open("w+") as out, (place / "err").open("w+") as err:
        process = subprocess.Popen(  # noqa: S603 - our own module
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            return _outcome(process, answers, len(lines), err.name)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _outcome(process: subprocess.Popen[bytes], answers: Path, lines: int, err: str) -> Word | None:
    at, waited = -1, 0
    # Turns, not the clock: where the whole machine stands still, so does this.
    while waited < PATIENCE_S / TURN_S:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TURN_S)
        words = [Word(**json.loads(line)) for line in answers.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        last = words[-1] if words else Word(-1)
        if last.does:
            return last
        if last.at == lines:
            return None
        if process.returncode is not None:
            if not words:
                raise RuntimeError(f"the process did not begin: {Path(err).read_text()}")
            return Word(last.at, f"ends its process, with status {process.returncode}", unruly=True)
        at, waited = last.at, waited + 1 if last.at == at else 0
    return Word(at, f"{HANGS} within {PATIENCE_S:g} s", unruly=True)


@contextlib.contextmanager
def publishing() -> Iterator[int]:
    """The port of a publisher that sends event 2 to each receiver, and hangs up once it hears anything more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()
        thread = threading.Thread(target=_publish, args=(server, over))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()


def _publish(server: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        if not select.select([server], [], [], 0.1)[0]:
            continue
        peer, _ = server.accept()
        with peer, contextlib.suppress(OSError):
            peer.settimeout(5)
            peer.recv(64)
            peer.sendall(event_line(2, 10))
            peer.recv(64)
