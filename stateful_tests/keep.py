"""``python -m stateful_tests.keep``: keep the programs that failed, so that every run replays them first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from stateful_tests.options import ROOT
from stateful_tests.programs import SHIPPED, Malformed, kept, read
from stateful_tests.results import REGRESSIONS
from stateful_tests.tokens import FORM

DESCRIPTION: Final = """\
Keep programs that failed: from now on every run of the gate replays them, on model and module, before all else.

  tox run -e keep                            all that the last run has found
  tox run -e keep -- FILE ...                these, from runs/*/regressions or written by hand
  tox run -e keep -- TOKEN                   the one that the failure with this token left; `repro TOKEN` makes it first
  tox run -e keep -- --to my/regressions     into a folder of your own; give it to the gate as --regressions

A file says first what it is a program of, `worker`, `client` or `client sessions`, then a step a line: the number of
the connection and an operation. Lines that begin with # are comments. Exit status: 0 kept, 2 there is none.
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command."""

    def error(self, message: str) -> NoReturn:
        raise Malformed(f"{message} (`tox run -e keep -- --help` shows how)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 kept, 2 there is nothing to keep."""
    try:
        options = _parser().parse_args(arguments)
        for path in _wanted(options):
            print(_keep(path, options.to), flush=True)
    except Malformed as problem:
        sys.stderr.write(f"fencepost: {problem}\n")
        return 2
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="tox run -e keep --", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", metavar="FILE|TOKEN", help="what to keep (all of the last run)")
    parser.add_argument("--to", type=Path, default=SHIPPED, metavar="DIR", help="where (stateful_tests/regressions)")
    parser.add_argument("--results", type=Path, default=ROOT / "runs", metavar="DIR", help="where the runs are (runs)")
    return parser


def _wanted(options: argparse.Namespace) -> list[Path]:
    if options.what:
        return [path for what in options.what for path in _named(what, options.results)]
    found = kept(options.results / "latest" / REGRESSIONS)
    if not found:
        raise Malformed(f"{options.results / 'latest'}: the last run has left no program")
    return found


def _named(what: str, results: Path) -> Iterator[Path]:
    if FORM.fullmatch(what) is None:
        yield Path(what)
        return
    runs = sorted(results.glob(f"[0-9]*/{REGRESSIONS}"), reverse=True)
    found = [path for path in kept(*runs) if what in path.read_text(errors="replace")]
    if not found:
        raise Malformed(f"{what}: no run in {results} has left its program: `tox run -e repro -- {what}` first")
    yield found[0]


def _keep(path: Path, folder: Path) -> str:
    program = read(path)
    target = folder / f"{program.name}.txt"
    if target.exists():
        return f"already kept: {target}"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(path.read_text(encoding="utf-8"))
    return f"kept: {target}"


if __name__ == "__main__":
    sys.exit(main())
