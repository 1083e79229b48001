"""The process that the user starts runs no check: it waits for the one that does, and believes only a finished verdict.

A judged module can end the process that it runs in, with whatever status, or keep it from ending.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final, NoReturn

import psutil
import pytest

from model import scratch
from stateful_tests import results
from stateful_tests.doing import DOING, left
from stateful_tests.verdict import EXIT_STATUS

STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NEVER: Final = float("inf")
DONE: Final = b"\0"
"""What the other process says once its verdict is written and spoken; any other byte is a signal that it got."""

ECHO_S: Final = 0.5
"""Ctrl-C reaches both processes; what came to this one alone is passed on after so long."""
HURRY_S: Final = 30.0
"""How long the other process may take to end in good order once it was told to; a second signal ends its patience."""
END_S: Final = 5.0
"""How long it may take to end after it has said that all is done."""

_told: list[int] = []


def watched(option: argparse.Namespace, run: Callable[[], int]) -> int:
    """The exit status of a gate that ``run`` runs in another process: of its verdict, if that was finished, whatever
    the status of the process is.
    """
    watch = split()
    if watch is None:
        _end_after(run)
    how = watch.wait()
    scratch.sweep()
    if not watch.finished:
        doing = next(left(option.folder / DOING), None)
        where = f" in {doing.nodeid}; what it did until then is in the folder {DOING}" if doing else ""
        reason = f"the process that runs the checks {how}{where}"
        results.write_unknown(option, reason)
        sys.stdout.write(f"\nunanswered  {reason}\n\nverdict: unknown\n")
    return EXIT_STATUS[results.read_word(option)]


def split() -> Watch | None:
    """From here on two processes run: None in the one that is to run the checks, its watch in the other."""
    sys.stdout.flush()
    sys.stderr.flush()
    told, tell = os.pipe()
    alive, hold = os.pipe()
    os.set_blocking(tell, False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        # No SQLite connection is open yet, and no thread runs.
        if child := os.fork():
            os.close(tell)
            os.close(alive)
            return Watch(child, told)
        os.close(told)
        os.close(hold)
        _interrupt_at_the_end_of(alive)
        _told.append(tell)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt_at_the_end_of(pipe: int) -> None:
    """Who holds the other end of the pipe is gone one day, perhaps in the middle of a check that lasts for minutes."""
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere it is seen between two checks
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGINT)
        fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC)


def _end_after(run: Callable[[], int]) -> NoReturn:
    """Whoever called pytest does not go on in this process too, and nothing that the module has begun does."""
    status = 1
    try:
        status = run()
    except pytest.UsageError as error:
        sys.stderr.write("".join(f"ERROR: {message}\n" for message in error.args))
    except BaseException:  # noqa: BLE001 - nobody else is there to print it
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def done() -> None:
    """Tell the watching process, if there is one, that the verdict is final."""
    for pipe in _told:
        with contextlib.suppress(OSError):
            os.write(pipe, DONE)


def forget() -> None:
    """In a copy of the process that runs the checks: nobody waits for the verdict of this one."""
    signal.set_wakeup_fd(-1)
    _told.clear()


class Watch:
    """The other process as its parent sees it; ``finished`` is whether it said that all is done."""

    def __init__(self, child: int, told: int) -> None:
        self.child, self._told = child, [told]
        self.finished = False
        self.status: int | None = None
        self._signals, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (*STOPS, signal.SIGCHLD):
            # A shell that starts this in the background has it ignore Ctrl-C.
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD:
                signal.signal(number, _nothing)
        self._asked = self._heard = False
        self._pass_on = self._until = NEVER
        self._left: list[psutil.Process] = []

    def wait(self) -> str:
        """Until the other process has ended, in one way or another; how it did, in words."""
        while self.status is None:
            self._listen()
            self._act(time.monotonic())
            pid, status = os.waitpid(self.child, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        _send(signal.SIGKILL, self._left)
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"

    def _listen(self) -> None:
        left = min(self._pass_on, self._until) - time.monotonic()
        pipes = [self._signals, *self._told]
        ready, _, _ = select.select(pipes, [], [], None if left == NEVER else max(0.0, left))
        for pipe in ready:
            said = os.read(pipe, 100)
            if pipe == self._signals:
                self._stop(said)
            elif said:
                self._hear(said)
            else:
                self._told.remove(pipe)

    def _stop(self, numbers: bytes) -> None:
        """The first signal asks the other process to end in good order, the second ends it at once."""
        now = time.monotonic()
        for number in set(numbers).intersection(STOPS):
            if self._asked:
                self._until = now
            elif not (number == signal.SIGINT and self._heard):
                self._pass_on = now + ECHO_S * (number == signal.SIGINT)
            self._asked = True
            self._until = min(self._until, now + HURRY_S)

    def _hear(self, said: bytes) -> None:
        if signal.SIGINT in said:
            self._heard, self._pass_on = True, NEVER
        if DONE in said:
            self.finished = True
            self._until = min(self._until, time.monotonic() + END_S)
            self._left = psutil.Process(self.child).children(recursive=True)

    def _act(self, now: float) -> None:
        if now >= self._pass_on:
            self._pass_on = NEVER
            _send(signal.SIGINT, _family(self.child))
        if now >= self._until:
            self._until = NEVER
            kill_family(self.child)


def kill_family(pid: int) -> None:
    """Kill the process, if it is still there, and all that it has started."""
    _send(signal.SIGKILL, _family(pid))


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return []


def _send(number: int, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The wake-up pipe tells; without a handler it would not."""
