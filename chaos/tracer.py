"""strace from the outside: started once for each kind of fault, told which call to fault, and its trace read."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path, PurePath
from typing import IO, Final

from chaos.files import SUFFIXES
from chaos.killer import ROOT, Unanswered
from chaos.traced import ABSENT, HARMLESS, MARK, PATIENCE_S, Answer, Order, Plain
from model.contract import Kind, Reopen

READS: Final = ("read", "pread64")
EIO_READING: Final = "EIO while reading"
FAULTS: Final = {"SIGKILL": "signal=SIGKILL", "ENOSPC": "error=ENOSPC", "EIO": "error=EIO", EIO_READING: "error=EIO"}
"""What happens at a system call instead of it, and how strace is told so; all but the last at those that change files.
"""

AT: Final = {name: 96 if name in (*READS, "write", "pwrite64") else 32 for name in HARMLESS}
"""strace faults the call with this number, by kind: more than a child makes of its own accord before its operation."""

_LINE: Final = re.compile(
    r'(?P<pid>\d+) +(?P<syscall>\w+)\((?:AT_FDCWD[^,]*, )?(?:\d+<(?P<fd>.*?)>(?:[,)]| <unf)|"(?P<path>.*?)")'
)


def untraceable() -> str:
    """Why no process can be traced here, in one line; empty if one can."""
    if not (strace := shutil.which("strace")):
        return "no strace on the PATH"
    command = [strace, "-f", "-qq", "-y", "-e", "trace=none", "-e", "inject=?fsync:error=EIO:when=9", "true"]
    done = subprocess.run(  # noqa: S603 - nothing of a stranger's
        command, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False
    )
    return f"strace cannot trace: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}" * bool(done.returncode)


@dataclass(frozen=True, slots=True)
class Call:
    """The ``nth`` system call of its kind that an operation makes.

    ``nth_on_file`` counts those of the whole process on the same file; ``earlier`` those of the process before the
    operation on any file. ``creates``: an openat that may make its file.
    """

    syscall: str
    file: str
    nth: int
    nth_on_file: int
    earlier: int
    creates: bool = False


@dataclass(slots=True)
class Tracer:
    """A running strace with one kind of fault, and the folder of the one file under test that it works on.

    ``busy``: a child waits for a further operation. ``since``: where its part of the trace begins.
    """

    fault: str
    kind: Kind
    folder: Path
    channel: Connection
    errors: IO[bytes]
    busy: bool = False
    since: int = 0

    @property
    def path(self) -> Path:
        return self.folder / self.kind.file

    def calls(self, op: Plain | Reopen) -> list[Call]:
        """The system calls that the operation makes on its files, in order, with nothing faulted."""
        heard = self._order(Order(str(self.path), op))
        if isinstance(heard, int):
            raise Unanswered(f"the process ended before its answer, with status {heard}{self._last_words()}")
        return read_trace(self._trace())

    def start(self, op: Plain | Reopen, call: Call) -> Answer | None:
        """Perform the operation with the call faulted: its answer, or None after the death of its process.

        Unanswered if the call was not faulted, or if that is not what the process died of.
        """
        heard = self._order(Order(str(self.path), op, call.syscall, AT[call.syscall] - call.nth - call.earlier))
        if isinstance(heard, Answer):
            self._faulted_once()
            return heard
        if self.fault == "SIGKILL" and heard == -signal.SIGKILL:
            return None
        raise Unanswered(f"the process has ended with status {heard}{self._last_words()}")

    def ask(self, op: Plain | Reopen) -> Answer:
        """The answer to a further operation of the same process."""
        heard = self._hear(op)
        self._faulted_once()
        if isinstance(heard, int):
            raise Unanswered(f"the process has ended with status {heard}{self._last_words()}")
        return heard

    def dismiss(self) -> None:
        """No child waits any more."""
        if self.busy:
            self._hear(None)

    def _order(self, order: Order) -> Answer | int:
        self.dismiss()
        self.since = (self.folder / "trace").stat().st_size
        return self._hear(order)

    def _hear(self, asked: Order | Plain | Reopen | None) -> Answer | int:
        """What the child answers, or what the server says of its end."""
        try:
            self.channel.send(asked)
            heard: Answer | int = self.channel.recv() if self.channel.poll(PATIENCE_S + 5) else -signal.SIGALRM
        except (EOFError, OSError):
            raise Unanswered(f"strace has ended{self._last_words()}") from None
        self.busy = isinstance(heard, Answer)
        if heard == -signal.SIGALRM:
            raise Unanswered(f"the operation has not come to an end after {PATIENCE_S} s")
        return heard

    def _faulted_once(self) -> None:
        """Unanswered unless exactly one system call of this process has been faulted."""
        if (faults := self._trace().count("(INJECTED)")) != 1:
            raise Unanswered(f"{faults} system calls have been faulted, must be 1")

    def _last_words(self) -> str:
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return last and f": {last}"

    def _trace(self) -> str:
        with (self.folder / "trace").open("rb") as trace:
            trace.seek(self.since)
            return trace.read().decode(errors="replace")


@contextlib.contextmanager
def tracing(fault: str, kind: Kind, module: Path, folder: Path) -> Iterator[Tracer]:
    """A running strace around a server of ``chaos.traced``; both, and every child, are dead when the context ends.

    They have a session of their own, so that a Ctrl-C is this process's to handle. They end by themselves when
    this process does, as their socket closes.
    """
    for name in ("trace", MARK):
        (folder / name).touch()
    ours, theirs = Pipe()
    with (
        ours,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - nothing of a stranger's
            [*_command(fault, kind, folder), str(theirs.fileno()), kind.name, str(module)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        ) as process,
    ):
        theirs.close()
        try:
            yield Tracer(fault, kind, folder, ours, errors)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _command(fault: str, kind: Kind, folder: Path) -> list[str]:
    names = (*(kind.file + suffix for suffix in SUFFIXES), MARK, ABSENT)
    paths = [str(folder), *(str(folder / name) for name in names)]
    server = [sys.executable, "-c", "from chaos.traced import serve; serve()"]
    kinds = [name for name in AT if (name in READS) == (fault == EIO_READING)]
    return [
        *("strace", "-f", "-qq", "-y", "-s0", "-o", str(folder / "trace")),
        *(word for path in paths for word in ("-P", path)),
        *("-e", f"trace={','.join(f'?{name}' for name in {'openat', *kinds})}"),
        *(word for name in kinds for word in ("-e", f"inject=?{name}:{FAULTS[fault]}:when={AT[name]}")),
        *server,
    ]


def read_trace(text: str) -> list[Call]:
    """The calls between the two marks of the one process in ``text``."""
    marks, calls = 0, []
    kinds: Counter[str] = Counter()
    files: Counter[tuple[str, str]] = Counter()
    earlier: Counter[str] = Counter()
    for match in filter(None, map(_LINE.match, text.splitlines())):
        syscall, file = match["syscall"], PurePath(match["fd"] or match["path"]).name
        kinds[syscall] += 1
        files[syscall, file] += 1
        if (syscall, file) == ("openat", MARK):
            marks += 1
            earlier = earlier or kinds.copy()
        elif marks == 1:
            nth, creates = kinds[syscall] - earlier[syscall], "O_CREAT" in match.string
            calls.append(Call(syscall, file, nth, files[syscall, file], earlier[syscall], creates))
    if marks != 2:
        raise Unanswered(f"the trace has {marks} marks, must have 2")
    return calls


def faultable(calls: Sequence[Call], fault: str, *, idle: bool = False) -> list[Call]:
    """Those of the calls that the fault is for: a file can fail to be made, but a death there is one before a write.

    An ``idle`` operation makes no file, whatever it opens.
    """
    made = fault != "SIGKILL" and not idle
    return [
        call
        for call in calls
        if call.nth + call.earlier <= AT[call.syscall] and ((call.creates and made) or call.syscall != "openat")
    ]


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
