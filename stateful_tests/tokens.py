"""A failure's token: all that brings it back, but for the module itself, in one word that a log can hold."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from model.contract import KINDS
from stateful_tests.options import PROFILES, ROOT, shown

KIND_OF: Final = {name[0]: name for name in KINDS}
FORM: Final = re.compile(
    rf"(?P<kind>[{''.join(KIND_OF)}]):(?P<profile>\w+):(?P<seed>-?\d{{1,40}}):(?P<check>[0-9a-f]{{8}})"
    r"(?::(?P<position>[\w+/=.-]+))?(?:@(?P<python>\d+\.\d+)-(?P<hypothesis>[\w.]+))?"
)
EXAMPLE: Final = "w:ci:1206202502:3f9a2c11@3.11-6.170.17"


class BadToken(Exception):
    """What was given brings nothing back; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What else decides which programs a seed stands for."""

    python: str
    hypothesis: str


@dataclass(frozen=True, slots=True)
class Token:
    """``check`` is ``digest`` of its name; ``position``, where the check knows one, is the way straight to the case.

    ``str`` of it is what ``parse`` reads back.
    """

    kind: str
    profile: str
    seed: int
    check: str
    position: str = ""
    versions: Versions | None = None

    def __str__(self) -> str:
        words = [self.kind[0], self.profile, str(self.seed), self.check, *([self.position] if self.position else [])]
        made = f"@{self.versions.python}-{self.versions.hypothesis}" if self.versions else ""
        return ":".join(words) + made


def digest(nodeid: str) -> str:
    """A check's name in eight characters: the chance that two of 2,000 have the same is 1 in 2,000."""
    return hashlib.sha256(nodeid.encode()).hexdigest()[:8]


def here() -> Versions:
    """The versions that run now."""
    return Versions(".".join(platform.python_version_tuple()[:2]), version("hypothesis"))


def parse(text: str) -> Token:
    """The token that ``text`` is; BadToken if it is none."""
    match = FORM.fullmatch(text)
    if match is None:
        raise BadToken(f"{text!r} is no token: it looks like {EXAMPLE}, as a failure prints it")
    if match["profile"] not in PROFILES:
        raise BadToken(f"{text!r} is no token of this version: it has no profile {match['profile']}")
    made = Versions(match["python"], match["hypothesis"]) if match["python"] else None
    kind = KIND_OF[match["kind"]]
    return Token(kind, match["profile"], int(match["seed"]), match["check"], match["position"] or "", made)


def unlike(made: Versions | None, now: Versions) -> Iterator[str]:
    """A line for each version that is not the one under which the token was made."""
    if made is None:
        return
    for name, was, is_ in (("Python", made.python, now.python), ("Hypothesis", made.hypothesis, now.hypothesis)):
        if was != is_:
            yield f"the token was made under {name} {was}, this is {is_}: it may stand for something else here"


def command(token: Token, module: Path) -> str:
    """What brings the failure back, for a shell."""
    tox = ["tox", "run", "-e", "repro", "--"]
    words = [*(tox if "TOX_ENV_NAME" in os.environ else ["python", "-m", "stateful_tests.repro"]), str(token)]
    if module != ROOT / f"{token.kind}.py":
        words += [f"--{token.kind}", shown(module)]
    return shlex.join(words)
