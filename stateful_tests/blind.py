"""``python -m stateful_tests.blind``: mutation tools that know no contract edit the shipped files, and the gate judges.

Python is edited by every operator of Cosmic Ray, the SQL in its strings by the swaps in ``SWAPS``. What survives is a
gap in the gate, or no fault at all: ``mutants/survivors.txt`` says of each of the latter why.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import os
import re
import shutil
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from model import scratch
from model.contract import KINDS
from stateful_tests.exam import Answer, Candidate, answers, is_named
from stateful_tests.options import ROOT, positive

SWAPS: Final = (
    (r" < ", " <= "),
    (r" < ", " > "),
    (r" <= ", " < "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" = ", " <> "),
    (r" <> ", " = "),
    (r" AND ", " OR "),
    (r" OR ", " AND "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"\bNULL\b", "0"),
    (r"\b1\b", "0"),
    (r"\b1\b", "2"),
    (r"\b0\b", "1"),
    (r"\bNOT ", ""),
    (r"\bIS NULL\b", "IS NOT NULL"),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"'pending'", "'leased'"),
    (r"'leased'", "'pending'"),
    (r"'done'", "'dead'"),
    (r"'dead'", "'done'"),
    (r"\bIMMEDIATE\b", "DEFERRED"),
    (r"\bUNIQUE ", ""),
    (r"\bWITHOUT ROWID\b", ""),
    (r"\bFULL\b", "NORMAL"),
    (r"\bDELETE\b", "TRUNCATE"),
    (r"\b(\w+), (\w+)\b", r"\2, \1"),
)
"""A pattern and what takes its place, one place at a time."""
SURVIVORS: Final = ROOT / "stateful_tests" / "mutants" / "survivors.txt"
"""A reason after a ``#``, and below it the edits that are no fault for it, as they are printed here."""
EVERY: Final = 50
"""How many answers pass in silence, if they are what they must be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 nothing survived that has no reason written down, 1 something did, or a reason is for an edit that
    there is no more, 130 interrupted.
    """
    options = _parser().parse_args(arguments)
    folder = scratch.make()
    try:
        return _hold(options, folder)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tox run -e blind --", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TEXT", help="only those that have one of these in their names")
    parser.add_argument("--kind", choices=list(KINDS), help="only worker.py, or only client.py")
    parser.add_argument("--known", action="store_true", help="judge those of survivors.txt too")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="I/N", help="only each N-th mutant, from the I-th on (1/1)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of every gate (1)")
    parser.add_argument(
        "--jobs", type=positive, default=2 * (os.cpu_count() or 1), metavar="N", help="gates at once (two a core)"
    )
    parser.set_defaults(full=False, profile="ci")
    return parser


def _part(given: str) -> tuple[int, int]:
    try:
        first, step = map(positive, given.split("/"))
    except (ValueError, argparse.ArgumentTypeError):
        first, step = 2, 1
    if first > step:
        raise argparse.ArgumentTypeError(f"{given!r} is not I/N with I from 1 to N")
    return first, step


def _hold(options: argparse.Namespace, folder: Path) -> int:
    first, step = options.part
    kinds = [options.kind] if options.kind else list(KINDS)
    seen, lived = Counter[str](), list[Answer]()
    made = [candidate for kind in kinds for candidate in _candidates(kind, folder)]
    reasons = survivors(SURVIVORS.read_text())
    known = [candidate for candidate in made if _key(candidate) in reasons]
    gone = {key for key in reasons if key[0] in kinds} - set(map(_key, known))
    drawn = [each for each in made if (options.known or each not in known) and is_named(each, options)]
    drawn = drawn[first - 1 :: step]
    print(f"{len(made)} mutants, {len(known)} of them known to be no fault; {len(drawn)} to judge", flush=True)
    for answer in answers(drawn, options, folder):
        seen[answer.word] += 1
        if answer.word != "invalid" or seen.total() % EVERY == 0:
            print(f"[{seen.total():4}/{len(drawn)}] {_said(answer)}", flush=True)
        lived += [answer] * (answer.word == "valid" and _key(answer.candidate) not in reasons)
    judged = seen["invalid"] + len(lived)
    print(f"\nfound      {seen['invalid']} of {judged} mutants that differ, {seen['invalid'] / max(judged, 1):.1%}")
    print(f"the same   {len(known)}, for the reasons in survivors.txt{'' if options.known else ', not judged'}")
    print(f"unknown    {seen['unknown']}: they do not load, or do not come back")
    for answer in lived:
        print(f"survived   {answer.candidate.kind}: {answer.candidate.name}")
    for kind, name in sorted(gone):
        print(f"no such    {kind}: {name}: survivors.txt has a reason for an edit that there is no more")
    return 1 if lived or gone else 0


def survivors(text: str) -> dict[tuple[str, str], str]:
    """The reason of each edit that is no fault, by its kind and its name."""
    found, reason = dict[tuple[str, str], str](), ""
    for line in filter(None, text.splitlines()):
        if line.startswith("# "):
            reason = line[2:]
        else:
            kind, _, name = line.partition(": ")
            found[kind, name] = reason
    return found


def _said(answer: Answer) -> str:
    return f"{answer.word}: {answer.candidate.name}  {answer.says[:120]}"


# --- the mutants ------------------------------------------------------------------------------------------------------


def _candidates(kind: str, folder: Path) -> Iterator[Candidate]:
    """Each edit that changes the syntax tree but for annotations and docstrings, once."""
    text = (ROOT / f"{kind}.py").read_text()
    seen = {_tree(text)}
    for number, mutated in enumerate((*_python(text), *_sql(text))):
        try:
            tree = _tree(mutated)
        except SyntaxError:
            continue
        if tree not in seen:
            seen.add(tree)
            path = folder / f"{kind}-{number}" / f"{kind}.py"
            path.parent.mkdir()
            path.write_text(mutated)
            yield Candidate(kind, _name(text, mutated), path, "invalid")


def _name(text: str, mutated: str) -> str:
    """What stands around the edit, and its lines before and after."""
    before, after = text.splitlines(), mutated.splitlines()
    start, left = _alike(before, after), _alike(before[::-1], after[::-1])
    end, other_end = max(start, len(before) - left), max(start, len(after) - left)
    nodes = (node for node in ast.parse(text).body if node.lineno <= start + 1 <= (node.end_lineno or 0))
    around = next((getattr(node, "name", None) or ast.unparse(node).partition(" =")[0] for node in nodes), "")
    lines = (" ".join(" ".join(part).split()) for part in (before[start:end], after[start:other_end]))
    return f"{around}: {' -> '.join(lines)}"


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """How many lines are the same from the first on."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))


def _key(candidate: Candidate) -> tuple[str, str]:
    return candidate.kind, candidate.name


def _python(text: str) -> Iterator[str]:
    from cosmic_ray import plugins  # noqa: PLC0415 - installed where it is used
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    for name in sorted(plugins.operator_names()):
        if name in ("core/VariableInserter", "core/VariableReplacer"):
            continue  # they want to be told which variable
        operator, occurrence = plugins.get_operator(name)(), 0
        while mutated := mutate_code(text, operator, occurrence):
            yield mutated
            occurrence += 1


def _sql(text: str) -> Iterator[str]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in _strings(text):
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        for pattern, replacement in SWAPS:
            for match in re.finditer(pattern, token.string):
                changed = token.string[: match.start()] + match.expand(replacement) + token.string[match.end() :]
                yield text[:start] + changed + text[end:]


def _strings(text: str) -> Iterator[tokenize.TokenInfo]:
    """The string literals that are no docstrings."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and before not in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield token
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type


def _tree(text: str) -> str:
    """The syntax without what has no effect: docstrings and annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.arg():
                node.annotation = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(None)
            case ast.Expr(value=ast.Constant(value=str())):
                node.value = ast.Constant(None)
    return ast.dump(tree)


if __name__ == "__main__":
    sys.exit(main())
