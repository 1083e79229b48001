"""What makes a machine hard to be right on: a disk that stalls now and then, and other work on every core."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from model import scratch
from stateful_tests.options import ROOT

RUNS: Final = ROOT / "runs"

LOADER: Final = """\
import itertools, os, sys, time
parent, path = os.getppid(), os.path.join(sys.argv[1], f"load-{os.getpid()}")
while os.getppid() == parent:
    until = time.process_time() + 0.2
    for _ in itertools.takewhile(lambda _: time.process_time() < until, itertools.count()): pass
    with open(path, "wb") as file:
        file.write(bytes(4_000_000)); file.flush(); os.fsync(file.fileno())
"""

SLOW_SYNC: Final = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static void stall(void) { static unsigned calls; if (++calls % 100 == getpid() % 100) usleep(MS * 1000); }
int fsync(int fd) { stall(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { stall(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for queue files, and what every process of a gate there is started with."""

    name: str
    folder: Path
    environment: dict[str, str]


@contextlib.contextmanager
def places(chosen: Sequence[Path], slow_ms: int) -> Iterator[list[Place]]:
    """The folders, each with one of our own in it, and the last of them once more as a slow disk."""
    RUNS.mkdir(parents=True, exist_ok=True)
    parents = {str(folder): folder for folder in chosen} or {"memory": scratch.fast(), "disk": RUNS}
    with contextlib.ExitStack() as stack:
        folders = {
            name: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=scratch.prefix(os.getpid()), dir=parent)))
            for name, parent in parents.items()
        }
        found = [Place(name, folder, {}) for name, folder in folders.items()]
        last = found[-1]
        if slow_ms and _compiled(shim := last.folder / "slow.so", slow_ms):
            found.append(Place(f"slow {last.name}", last.folder, {"LD_PRELOAD": str(shim)}))
        yield found


def _compiled(shim: Path, slow_ms: int) -> bool:
    """Whether there is now a library that makes a sync slow."""
    command = ["cc", "-shared", "-fPIC", f"-DMS={slow_ms}", "-o", str(shim), "-x", "c", "-", "-ldl"]
    try:
        subprocess.run(command, input=SLOW_SYNC, text=True, capture_output=True, check=True)  # noqa: S603 - our own
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not tried here: a slow disk, which needs a C compiler: {error}")
        return False
    return True


@contextlib.contextmanager
def load(number: int, among: Sequence[Place]) -> Iterator[None]:
    """So many processes spin and write, each in one of the places, for as long as the context lasts."""
    folders = [str(among[each % len(among)].folder) for each in range(number)]
    loaders = [
        subprocess.Popen([sys.executable, "-I", "-c", LOADER, folder], start_new_session=True)  # noqa: S603 - our own
        for folder in folders
    ]
    try:
        yield
    finally:
        for loader in loaders:
            loader.kill()
            loader.wait()
