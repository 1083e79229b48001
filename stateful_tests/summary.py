"""A verdict for GitHub's pages: as Markdown for a job summary, as an annotation, or as its one word.

What a judged module said is foreign text: it stands in a code block that it cannot close, or with every mark of
Markdown, HTML and workflow commands escaped.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from stateful_tests.verdict import TITLES, Layer, cells

SHOWN: Final = 12
LONGEST: Final = 20_000
"""Characters of one text: a summary may have 1 MiB, and what is cut stands in verdict.json."""
MARKS: Final = re.compile(r"[#$&*<>@\[\]\\_`|~]|[-+.)](?=\s|$)")
"""What may mean something to Markdown, inside a line or where one begins."""

Data = dict[str, Any]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(data: Data) -> Iterator[str]:
    """The whole summary, by lines: the word, what shows it, and the table."""
    yield f"## Fencepost: {data['verdict']}"
    yield ""
    judged = (escaped(file["path"]) for file in data["judged"].values())
    yield f"{', '.join(judged)} · profile {escaped(data['profile'])} · seed {data['seed']}"
    if data["failures"]:
        yield from _failure(data["failures"][0])
    yield from _listed("Also wrong", [f"{each['layer']}: {each['title']}" for each in data["failures"][1:]])
    yield from _listed("Unanswered", data["unanswered"])
    yield from _table([Layer(**layer) for layer in data["layers"]])
    yield from _listed("Not tried here", data["not_tried"])


def _failure(failure: Data) -> Iterator[str]:
    yield ""
    yield f"**{escaped(failure['layer'])}: {escaped(failure['title'])}**"
    yield ""
    yield from fenced("text", failure["difference"])
    yield ""
    yield from fenced("python", *failure["program"])
    yield ""
    yield "In a clone of Fencepost, this replays it:"
    yield ""
    yield from fenced("sh", failure["replay"])


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"{title}:"
        yield ""
        yield from (f"- {escaped(line)}" for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            yield f"- {len(lines) - SHOWN} more, all of them in verdict.json"


def _table(layers: Sequence[Layer]) -> Iterator[str]:
    layers = [layer for layer in layers if layer.checks]
    if layers:
        yield ""
        yield _row(TITLES)
        yield "|---|---|--:|---|---|--:|"
        yield from (_row([escaped(cell) for cell in row]) for row in cells(layers))


def _row(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def escaped(text: str) -> str:
    """Text as one line of Markdown that shows just this text, in a paragraph, a list or a cell of a table."""
    line = " ".join(_cut(text).split())
    return MARKS.sub(lambda mark: f"&#{ord(mark[0])};", line)


def fenced(language: str, *lines: str) -> Iterator[str]:
    """A code block: its fence is longer than any run of backticks inside."""
    text = _cut("\n".join(lines))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield fence + language
    yield text
    yield fence


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


# --- a workflow command -----------------------------------------------------------------------------------------------


def annotation(data: Data) -> Iterator[str]:
    """One error, on the file that was judged, that says what is wrong or what kept an answer off; none if valid."""
    if data["verdict"] == "valid":
        return
    kind, says = next(iter(data["judged"])), "no answer"
    if data["failures"]:
        first = data["failures"][0]
        kind, says = first["kind"], f"{first['title']}: {first['difference']}"
    elif data["unanswered"]:
        says = data["unanswered"][0]
    file = _command(data["judged"][kind]["path"], ":,")
    yield f"::error file={file},title=Fencepost%3A {data['verdict']}::{_command(_cut(says))}"


def _command(text: str, also: str = "") -> str:
    """Escaped as the runner reads it, which is as in an address."""
    return "".join(f"%{ord(mark):02X}" if mark in f"%\r\n{also}" else mark for mark in text)


# --- the command ------------------------------------------------------------------------------------------------------

FORMS: Final[dict[str, Callable[[Data], Iterator[str]]]] = {
    "markdown": markdown,
    "annotation": annotation,
    "word": lambda data: iter([data["verdict"]]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict in a form; 2 if there is none to read."""
    options = _parser().parse_args(arguments)
    try:
        data = json.loads(options.verdict.read_text())
        lines = list(FORMS[options.form](_below(options.below, data) if options.below else data))
    except (OSError, ValueError, LookupError, TypeError) as error:
        sys.stderr.write(f"{options.verdict}: not a verdict of the gate: {type(error).__name__}: {error}\n")
        return 2
    print("".join(f"{line}\n" for line in lines), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stateful_tests.summary", description=__doc__.splitlines()[0])
    parser.add_argument("verdict", metavar="VERDICT_JSON", type=Path, help="runs/latest/verdict.json, for example")
    parser.add_argument("--as", dest="form", choices=FORMS, default="markdown", help="markdown, if nothing is said")
    parser.add_argument("--below", metavar="DIR", type=Path, help="show what was judged as seen from this folder")
    return parser


def _below(folder: Path, data: Data) -> Data:
    """The same with the paths that lie below ``folder`` as seen from there, in the replays too."""
    paths = {file["path"]: _seen_from(folder, file["path"]) for file in data["judged"].values()}
    judged = {kind: {**file, "path": paths[file["path"]]} for kind, file in data["judged"].items()}
    failures = [
        {**failure, "replay": shlex.join(paths.get(word, word) for word in shlex.split(failure["replay"]))}
        for failure in data["failures"]
    ]
    return {**data, "judged": judged, "failures": failures}


def _seen_from(folder: Path, path: str) -> str:
    folder = folder.resolve()
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


if __name__ == "__main__":
    sys.exit(main())
