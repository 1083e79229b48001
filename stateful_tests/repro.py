"""``python -m stateful_tests.repro TOKEN``: bring back the failure that a token stands for."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from model.contract import KINDS
from stateful_tests import tokens
from stateful_tests.options import ROOT
from stateful_tests.tokens import BadToken, Token

OF_CHAOS: Final = re.compile(r"[0-9]+:[0-9]+:.+")

DESCRIPTION: Final = """\
Bring back the failure that TOKEN stands for: the gate makes that one check again, with the same seed and profile.

  tox run -e repro -- w:ci:1206202502:3f9a2c11@3.11-6.170.17                      of the shipped worker.py
  tox run -e repro -- w:ci:1206202502:3f9a2c11@3.11-6.170.17 --worker mine.py     of another one
  tox run -e repro -- 1:3:first-claim.after-claim --worker mine.py                a kill that `python -m chaos` named

A token is KIND:PROFILE:SEED:CHECK, for some checks :POSITION, and @PYTHON-HYPOTHESIS, the versions it was made under:
with the same ones, and the same module, the failure is the same. Where real processes race, in the layers delivery and
storm, it may take several tries. Every other option goes to pytest, such as --pdb.

Exit status: 1 the failure came again; 2 it did not, or the token stands for nothing here.
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command."""

    def error(self, message: str) -> NoReturn:
        raise BadToken(f"{message} (`tox run -e repro -- --help` shows how)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Goes on as the command that brings it back; exit status 2 where there is none."""
    try:
        options, others = _parser().parse_known_args(arguments)
        given = {name: getattr(options, name) for name in KINDS if getattr(options, name) is not None}
        if OF_CHAOS.fullmatch(options.token):
            _become([sys.executable, "-m", "chaos", "replay", options.token, *_paths(given), *others])
        _bring_back(tokens.parse(options.token), given, others)
    except BadToken as problem:
        sys.stderr.write(f"fencepost: {' '.join(str(problem).split())}\n")
        return 2


def _parser() -> Parser:
    parser = Parser(
        prog="tox run -e repro --",
        usage="tox run -e repro -- TOKEN [--worker PATH | --client PATH]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("token", metavar="TOKEN", help="as the failure printed it")
    for name in KINDS:
        parser.add_argument(f"--{name}", metavar="PATH", help=f"the {name} that failed (the shipped {name}.py)")
    return parser


def _paths(given: dict[str, str]) -> list[str]:
    return [word for name, path in given.items() for word in (f"--{name}", str(Path(path).resolve()))]


def _bring_back(token: Token, given: dict[str, str], others: Sequence[str]) -> NoReturn:
    for name in given:
        if name != token.kind:
            raise BadToken(f"--{name}: the token is of a {token.kind}")
    for line in tokens.unlike(token.versions, tokens.here()):
        sys.stderr.write(f"fencepost: {line}\n")
    module = _paths(given) or [f"--{token.kind}", str(ROOT / f"{token.kind}.py")]
    gate = ["--gate", *module, "--profile", token.profile, "--seed", str(token.seed), "-n0"]
    gate.append(f"--again={token}")
    nodeid = check_of(token, [*gate, *others])
    print(f"check    {nodeid}", flush=True)
    _become([sys.executable, "-m", "pytest", *gate, *others, nodeid])


def check_of(token: Token, gate: Sequence[str]) -> str:
    """The name of the one check that the token means; BadToken if there is none, or more than one."""
    names = names_of(gate)
    if not names:
        sys.exit(2)  # the gate has said why, on stderr
    found = [nodeid for nodeid in names if tokens.digest(nodeid) == token.check]
    if not found:
        raise BadToken(f"no check of a {token.kind} is {token.check} here: the token is of another version")
    if len(found) > 1:
        raise BadToken(f"{token.check} means each of {', '.join(found)}")
    return found[0]


def names_of(gate: Sequence[str]) -> list[str]:
    """The names of all checks that such a gate makes."""
    command = [sys.executable, "-m", "pytest", *gate, "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    return [line for line in done.stdout.splitlines() if "::" in line]


def _become(command: list[str]) -> NoReturn:
    """Go on as this command: what it prints and how it ends is the answer, and a Ctrl-C is its own."""
    os.chdir(ROOT)
    os.execv(command[0], command)  # noqa: S606 - our own commands


if __name__ == "__main__":
    sys.exit(main())
