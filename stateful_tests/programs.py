"""Programs as text, a step a line: read by people, kept in a repository, replayed whatever has become of Hypothesis.

The first line that is no comment says what it is a program of; then come its steps, as ``model.steps`` writes them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from model import contract, events
from stateful_tests import acts

SHIPPED: Final = Path(__file__).parent / "regressions"
CONNECTIONS: Final = 8
STEP: Final = re.compile(r"(\d+) (\w.*)")

PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "worker": contract.parse,
    "client": events.parse,
    acts.SESSIONS_OF_CLIENT: acts.parse,
}
"""What there are programs of, and how a step of each is read."""


class Malformed(Exception):
    """The file is no program; the message is one line that says where and why."""


@dataclass(frozen=True, slots=True)
class Program:
    """``of`` is a key of ``PARSERS``; each step has the number of its connection, a session always 1."""

    of: str
    steps: tuple[tuple[int, Any], ...]

    @property
    def kind(self) -> str:
        """What it judges."""
        return self.of.partition(" ")[0]

    @property
    def lines(self) -> list[str]:
        """The text of it, without comments."""
        sessions = self.of == acts.SESSIONS_OF_CLIENT
        return [self.of, *(f"{step!r}" if sessions else f"{con} {step!r}" for con, step in self.steps)]

    @property
    def name(self) -> str:
        """For its file: what it is of, its last operation, and a digest of all."""
        last = type(contract.plain(self.steps[-1][1])).__name__.lower()
        digest = hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
        return f"{self.kind}-{last}-{digest[:8]}"


def read(path: Path) -> Program:
    """The program in the file; Malformed if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: cannot be read: {error}") from None
    return parse(text, str(path))


def malformed(path: Path) -> str:
    """Why the file is no program, in one line; empty if it is one."""
    try:
        read(path)
    except Malformed as problem:
        return str(problem)
    return ""


def parse(text: str, name: str) -> Program:
    """The program that the text is; Malformed, with ``name`` in front, if it is none."""
    numbered = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, line) for n, line in numbered if line and not line.startswith("#")]
    if not lines or lines[0][1] not in PARSERS:
        _fail(name, lines[0][0] if lines else 1, f"must say what it is a program of: {', '.join(PARSERS)}")
    of = lines[0][1]
    if not lines[1:]:
        _fail(name, lines[0][0], "has no step")
    return Program(of, tuple(_step(of, name, *line) for line in lines[1:]))


def _step(of: str, name: str, number: int, line: str) -> tuple[int, Any]:
    sessions = of == acts.SESSIONS_OF_CLIENT
    match = STEP.fullmatch(f"1 {line}" if sessions else line)
    if match is None or not 1 <= int(match[1]) <= CONNECTIONS:
        _fail(name, number, f"must begin with the number of a connection, 1 to {CONNECTIONS}")
    try:
        return int(match[1]), PARSERS[of](match[2])
    except ValueError:
        _fail(name, number, f"no {'session' if sessions else 'operation'} of a {of.partition(' ')[0]}: {match[2]}")


def _fail(name: str, number: int, why: str) -> NoReturn:
    raise Malformed(f"{name}: line {number}: {' '.join(why.split())}")


def write(folder: Path, steps: Sequence[str], *comments: str) -> Path | None:
    """Put these lines, as a check leaves them, into a file of the folder; None if they are no program."""
    try:
        program = parse("\n".join(steps), "")
    except Malformed:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program.name}.txt"
    path.write_text("".join(f"{line}\n" for line in (*(f"# {each}" for each in comments), *program.lines)))
    return path


def kept(*folders: str | Path) -> list[Path]:
    """The files in these folders, each in the order of their names."""
    return [path for folder in folders for path in sorted(Path(folder).glob("*.txt"))]
