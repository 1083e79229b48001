"""What a module leaves behind in its process: ``python -m stateful_tests.footprint`` runs a program and looks.

It runs the program line by line, up to the first that changes anything but its connection and its file. Its standard
output and error are files, so that what is written to them is seen, whoever writes it and how. TMPDIR and HOME are a
folder of its own, empty at the start.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import datetime as dt
import decimal
import faulthandler
import functools
import gc
import io
import json
import locale
import logging
import os
import random
import resource
import signal
import socket
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import psutil

from model.contract import KINDS, Kind
from model.port import load, one_line

STANDARD: Final = (asyncio, builtins, dt, io, os, os.path, signal, socket, sqlite3, sys, threading, time)
"""The modules whose public names, and those of their public classes, must stay what they are."""

LIMITS: Final = [name for name in vars(resource) if name.startswith("RLIMIT_")]

LOOKS: Final = 100
"""So often, a hundredth of a second apart, a thread or process may still be there that was told to end, or awaited."""

CONNECTION: Final = sqlite3.Connection


@dataclass(frozen=True, slots=True)
class Order:
    """What to run on which module, in which folder, and the file to say in what came of it."""

    kind: str
    module: str
    folder: str
    answers: str
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Word:
    """The line with this number begins, or does something that it must not.

    ``unruly``: nothing else that runs in such a process can be relied on. ``reply``: it is not what this check is
    about: an answer, which is for others to judge, or it cannot be seen what the line did.
    """

    at: int
    does: str = ""
    unruly: bool = False
    reply: bool = False


def main() -> None:
    """Obey one order, a line of JSON; the process ends at once then, whatever still runs in it."""
    order = Order(**json.loads(sys.argv[1]))
    say = functools.partial(os.write, os.open(order.answers, os.O_WRONLY | os.O_APPEND))
    for word in obey(order):
        say(json.dumps(asdict(word)).encode() + b"\n")
    os._exit(0)


def obey(order: Order) -> Iterator[Word]:
    """Each line begins, up to one that does something wrong; after the last one that is right, the end does."""
    kind = KINDS[order.kind]
    os.chdir(order.folder)
    logging.getLogger().addHandler(logging.NullHandler())  # what is logged is for the caller to show
    _set_apart()
    names: dict[str, Any] = {"asyncio": asyncio, "suppress": contextlib.suppress}
    gc.collect()
    gc.freeze()
    before = Surroundings(kind)
    for at, line in enumerate(order.lines):
        yield Word(at)
        try:
            if line == f"import {kind.name}":
                names[kind.name] = load(order.module, kind)
            else:
                exec(line, names)  # noqa: S102 - the harness's own lines
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the module's
            ours = line.startswith("hasattr") or not isinstance(error, Exception)
            yield Word(at, f"raises {one_line(error)}, must return", reply=not ours)
            return
        if word := _seen(at, kind, before, names):
            yield word
            return
    yield Word(len(order.lines))


def _set_apart() -> None:
    """Give the process what none has by itself: to set it back to the default is to change it."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _heed)
    os.umask(0o027)
    gc.disable()
    gc.set_threshold(701, 11, 11)
    socket.setdefaulttimeout(777.0)
    sys.setswitchinterval(0.006)
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    decimal.getcontext().prec += 1


def _heed(number: int, _frame: object) -> None:
    """A handler of the caller's: nobody sends a signal here."""
    raise RuntimeError(f"signal {number}")


def _seen(at: int, kind: Kind, before: Surroundings, names: dict[str, Any]) -> Word | None:
    """What the line has done beside its work, if anything."""
    try:
        if does := before.unlike(names):
            return Word(at, does, unruly=True)
        does = _beside(kind)
    except Exception as error:  # noqa: BLE001 - an error of the look is not held against the module
        return Word(at, f"cannot be looked at: {one_line(error)}", reply=True)
    return Word(at, does) if does else None


class Surroundings:
    """What there was in the process before the module came."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.objects, self.values = _objects(), _values()
        self.threads, self.descriptors = psutil.Process().num_threads(), _descriptors()

    def unlike(self, names: dict[str, Any]) -> str:
        """What is no longer as it was, but for the connections among ``names``; empty if all is."""
        return next(self._changes(names), "")

    def _changes(self, names: dict[str, Any]) -> Iterator[str]:
        objects = _objects()
        for name, value in self.objects.items():
            if objects.get(name, self) is not value:
                yield f"replaces {name}"
        yield from self._changed_values(names.get(self.kind.name))
        if _stays(lambda: psutil.Process().num_threads() > self.threads):
            yield "leaves a thread behind"
        if _stays(_others):
            yield "leaves a process behind"
        gc.collect()
        held = [each for each in names.values() if issubclass(type(each), CONNECTION) and _is_open(each)]
        opened = [each for each in gc.get_objects() if issubclass(type(each), CONNECTION) and _is_open(each)]
        if len(opened) > len(held):
            yield "leaves a connection open that is not its caller's"
        yield from self._opened(len(held))

    def _changed_values(self, module: object) -> Iterator[str]:
        values = _values()
        own = getattr(module, "__name__", "")
        for name in self.values.keys() | values.keys():
            if name not in self.values and name.startswith(f"the adapter of {own}."):
                continue
            if self.values.get(name) != values.get(name):
                yield f"changes {name}"

    def _opened(self, held: int) -> Iterator[str]:
        """Each of the ``held`` connections has one descriptor of the file; there must be no other new one."""
        file = os.stat(self.kind.file) if os.path.exists(self.kind.file) else None  # noqa: PTH110, PTH116 - as above
        for number, stat in _descriptors().items():
            before = self.descriptors.get(number)
            if before and os.path.samestat(before, stat):
                continue
            ours = bool(file and os.path.samestat(file, stat))
            held -= ours
            if not ours or held < 0:
                yield f"leaves a descriptor open: {_target(number)}"


def _objects() -> dict[str, object]:
    found: dict[str, object] = {f"sys.modules[{name!r}]": module for name, module in sys.modules.items()}
    for module in STANDARD:
        for name, value in vars(module).items():
            if name.startswith("_") and name != "__import__":
                continue
            found[f"{module.__name__}.{name}"] = value
            if isinstance(value, type):
                found |= {f"{module.__name__}.{name}.{part}": each for part, each in vars(value).items()}
    return found


def _values() -> dict[str, object]:
    os.umask(mask := os.umask(0))
    root = logging.getLogger()
    return {
        "the working directory": os.getcwd(),  # noqa: PTH109 - Path would be one more thing to rely on
        "the umask": mask,
        "the locale": locale.setlocale(locale.LC_ALL),
        "the timer that ends in SIGALRM": signal.getitimer(signal.ITIMER_REAL) != (0, 0),
        "the signals that are blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "the timeout of new sockets": socket.getdefaulttimeout(),
        "the collection of garbage": (gc.isenabled(), gc.get_threshold(), gc.get_debug(), [*gc.callbacks]),
        "the handler of faults": faulthandler.is_enabled(),
        "the recursion limit": sys.getrecursionlimit(),
        "the interval of thread switches": sys.getswitchinterval(),
        "the limit of digits": sys.get_int_max_str_digits(),
        "the state of the random numbers": random.getstate(),
        "the context of decimals": (decimal.getcontext().prec, decimal.getcontext().rounding),
        **{f"the limit {name}": resource.getrlimit(getattr(resource, name)) for name in LIMITS},
        "the function that traces or profiles": (sys.gettrace(), sys.getprofile()),
        "sys.path": [*sys.path],
        "sys.argv": [*sys.argv],
        "warnings.filters": [*warnings.filters],
        "the root logger": (root.level, [*root.handlers]),
        **{f"the handler of {number.name}": signal.getsignal(number) for number in signal.Signals},
        **{f"the environment variable {name}": value for name, value in os.environ.items()},
        **{f"the adapter of {kind.__module__}.{kind.__name__}": each for (kind, _), each in sqlite3.adapters.items()},
        **{f"the converter of {name}": each for name, each in sqlite3.converters.items()},
    }


def _descriptors() -> dict[int, os.stat_result]:
    """Every open descriptor of this process."""
    found = dict[int, os.stat_result]()
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - as above
        with contextlib.suppress(OSError):
            found[int(name)] = os.fstat(int(name))
    return found


def _target(number: int) -> str:
    """What a descriptor leads to, where the system says so."""
    try:
        return os.readlink(f"/proc/self/fd/{number}").removeprefix(f"{os.getcwd()}/")  # noqa: PTH109, PTH115 - as above
    except OSError:
        return f"number {number}"


def _others() -> list[int]:
    """The other processes of this session: what was started here, whoever is its parent by now."""
    ours, found = os.getsid(0), list[int]()
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if pid != os.getpid() and os.getsid(pid) == ours:
                found.append(pid)
    return found


def _stays(what: Callable[[], object]) -> bool:
    """Whether it holds, and goes on to: what has ended may take a moment to be gone."""
    for _ in range(LOOKS):
        if not what():
            return False
        time.sleep(0.01)
    return True


def _is_open(con: sqlite3.Connection) -> bool:
    try:
        return con.in_transaction or True
    except sqlite3.ProgrammingError:
        return False


def _beside(kind: Kind) -> str:
    """What was written to the standard streams, or is in the folder beside the file; empty if nothing is."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number, name in ((1, "standard output"), (2, "standard error")):
        if said := os.pread(number, 200, 0):
            return f"writes to {name}: {said.decode(errors='replace')!r}"
    others = set(os.listdir()) - {kind.file}  # noqa: PTH208 - as above
    others |= set(os.listdir(os.environ["TMPDIR"]))  # noqa: PTH208 - as above
    return f"leaves a file behind: {min(others)}" if others else ""


if __name__ == "__main__":
    main()
