"""What a process is about to ask of the module under test, on disk before it asks: killed or hung, it keeps its case.

One of the edges of this package. Nothing is written until ``begin``; then a file holds the check that is being made and
its program so far, a line a step: the number of the connection, and the operation, as ``contract.parse`` reads it. A
line that begins with ``#`` is no step of the program. It need not outlast the machine, only the process: nothing is
synced.
"""

from __future__ import annotations

import os
from pathlib import Path

_file = -1
_kept = b""
_con = 1
_depth = 0


def begin(path: Path) -> None:
    """From now on, this process writes to this new file."""
    global _file  # noqa: PLW0603 - one a process, as its standard output is
    end()
    path.parent.mkdir(parents=True, exist_ok=True)
    _file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)


def end() -> None:
    """From now on, it writes nothing."""
    global _file  # noqa: PLW0603
    if _file >= 0:
        os.close(_file)
    _file = -1


def check(*head: str) -> None:
    """A check begins: what was written before is forgotten, these lines stay for as long as it lasts."""
    global _kept  # noqa: PLW0603
    _kept = "".join(f"# {line}\n" for line in head).encode()
    program()


def program(*lines: str) -> None:
    """A program begins, on a file of its own: of those before it in the same check nothing is left."""
    global _con, _depth
    _con, _depth = 1, 0
    if _file >= 0:
        os.ftruncate(_file, 0)
        os.write(_file, _kept + "".join(f"{line}\n" for line in lines).encode())


def on(con: int) -> None:
    """The next steps are made on the connection of this number."""
    global _con  # noqa: PLW0603
    _con = con


def note(text: str) -> None:
    """What is about to be done, where that is no operation."""
    if _file >= 0:
        os.write(_file, f"# {text}\n".encode(errors="backslashreplace"))


def session(session: object) -> None:
    """A session is about to be played, a step of a program of sessions."""
    if _file >= 0:
        os.write(_file, f"{session!r}\n".encode())


def enter(op: object) -> None:
    """The operation is about to be performed; one that is performed within it is no step of its own."""
    global _depth  # noqa: PLW0603
    if _file >= 0:
        os.write(_file, f"{'# meanwhile: ' if _depth else ''}{_con} {op!r}\n".encode(errors="backslashreplace"))
    _depth += 1


def leave() -> None:
    """It has come back."""
    global _depth  # noqa: PLW0603
    _depth -= 1
