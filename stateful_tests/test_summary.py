"""What a verdict looks like on GitHub's pages, whatever the judged module said."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateful_tests import summary
from stateful_tests.verdict import LAYERS, Check, judge

HOSTILE = "a | b ``` <script> **x** [y](z) $m$ \\"


def verdict(*wrong: Check, reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    """As the gate writes it, of one check for each layer and the ``wrong`` ones."""
    checks = [Check(f"t.py::test_{layer}", "worker", layer, "valid", 1.5, {"calls": 1234}) for layer in LAYERS]
    checks[2] = Check("t.py::test_all", "worker", "transitions", "valid", 1.5, covered={"worker": (7, 7)})
    judged = {"worker": {"path": "/home/me/shop/src/my_worker.py", "sha256": "0"}}
    judgement = judge([*checks, *wrong], ["worker"], reasons=reasons)
    data = judgement.as_json(judged=judged, seed=7, profile="ci")
    for failure in data["failures"]:
        failure["replay"] = "tox run -e gate -- --worker /home/me/shop/src/my_worker.py 't.py::test_it[a b]'"
    return data


def wrong(parameter: str = "a b", difference: str = "says 1, must say 2") -> Check:
    return Check(
        f"t.py::test_it[{parameter}]", "worker", "contract", "invalid", 1, difference=difference, program=("import it",)
    )


TABLE = """\
| judged | layer | checks | did | result | seconds |
|---|---|--:|---|---|--:|
| worker | contract | 1 | 1,234 calls | valid | 1.5 |"""


def test_a_valid_one_shows_its_table() -> None:
    text = "\n".join(summary.markdown(verdict()))
    assert text.startswith(
        f"## Fencepost: valid\n\n/home/me/shop/src/my&#95;worker.py · profile ci · seed 7\n\n{TABLE}\n"
    )
    assert "\n| worker | transitions | 1 | 7 of 7 transitions | valid | 1.5 |" in text
    assert list(summary.annotation(verdict())) == []


def test_an_invalid_one_shows_its_first_failure() -> None:
    text = "\n".join(summary.markdown(verdict(wrong(), wrong("b|c"), reasons=("it ended early",))))
    assert (
        "\n\n**contract: it &#91;a b&#93;**\n\n```text\nsays 1, must say 2\n```\n\n```python\nimport it\n```\n" in text
    )
    assert "```sh\ntox run -e gate -- --worker /home/me/shop/src/my_worker.py 't.py::test_it[a b]'\n```\n" in text
    assert "Also wrong:\n\n- contract: it &#91;b&#124;c&#93;\n\nUnanswered:\n\n- it ended early\n\n| judged" in text


def test_a_long_list_is_cut() -> None:
    reasons = tuple(f"reason {n}" for n in range(20))
    lines = list(summary.markdown(verdict(reasons=reasons)))
    assert lines[lines.index("- reason 11") + 1] == "- 8 more, all of them in verdict.json"


def test_a_long_text_is_cut() -> None:
    text = "\n".join(summary.markdown(verdict(wrong(difference="x" * 10**7))))
    assert len(text) < 2 * summary.LONGEST
    assert len("".join(summary.annotation(verdict(wrong(difference="x" * 10**7))))) < 2 * summary.LONGEST


def test_foreign_text_stays_in_its_place() -> None:
    told = verdict(wrong(HOSTILE, f"{HOSTILE}\n```\n## Fencepost: valid"), reasons=(f"{HOSTILE}\n- not mine",))
    text = "\n".join(summary.markdown(told))
    outside = re.sub(r"(?ms)^(`{3,})\w+$.*?^\1$", "", text)
    assert "````text\n" in text
    assert outside.count("\n#") + outside.startswith("#") == 1
    assert not re.search(r"[<`$\\]", outside)
    assert len([line for line in outside.splitlines() if line.startswith("- ")]) == 1


@given(st.text() | st.text(alphabet="#$&*<>@[]\\_`|~-+.) \n1a;"))
def test_what_is_escaped_reads_as_it_was(text: str) -> None:
    line = summary.escaped(text)
    assert html.unescape(line) == " ".join(text.split())
    assert not summary.MARKS.search(re.sub(r"&#[0-9]+;", "e", line))


@given(st.text(alphabet="`~a \n", max_size=30))
def test_no_text_closes_its_fence(text: str) -> None:
    first, *inside, last = "\n".join(summary.fenced("text", text)).split("\n")
    assert first == f"{last}text"
    assert "\n".join(inside) == text
    assert not [line for line in inside if line.strip().startswith(last)]


def test_an_annotation_is_one_command() -> None:
    told = verdict(wrong(difference="50%\r\n::error::no"))
    told["judged"]["worker"]["path"] = "a,b:c.py"
    assert list(summary.annotation(told)) == [
        "::error file=a%2Cb%3Ac.py,title=Fencepost%3A invalid::it [a b]: 50%25%0D%0A::error::no"
    ]


def test_an_annotation_says_what_kept_an_answer_off() -> None:
    assert list(summary.annotation(verdict(reasons=("no such file",)))) == [
        "::error file=/home/me/shop/src/my_worker.py,title=Fencepost%3A unknown::no such file"
    ]


def run(file: Path, *options: str) -> int:
    return summary.main([*options, str(file)])


def test_paths_are_shown_as_seen_from_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(verdict(wrong())))
    assert [run(file, "--below", "/home/me/shop"), run(file, "--below", "/home/me/shop", "--as", "annotation")] == [
        0,
        0,
    ]
    out = capsys.readouterr().out
    assert "\nsrc/my&#95;worker.py · profile" in out
    assert "\ntox run -e gate -- --worker src/my_worker.py 't.py::test_it[a b]'\n" in out
    assert "\n::error file=src/my_worker.py,title=" in out
    assert [run(file, "--below", "/home/you"), run(file, "--as", "word")] == [0, 0]
    out = capsys.readouterr().out
    assert "\n/home/me/shop/src/my&#95;worker.py · profile" in out
    assert out.endswith("\ninvalid\n")


@pytest.mark.parametrize(
    ("text", "says"), [(None, "FileNotFoundError"), ("{", "JSONDecodeError"), ("{}", "KeyError"), ("[]", "TypeError")]
)
def test_what_is_no_verdict_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    file = tmp_path / "verdict.json"
    if text is not None:
        file.write_text(text)
    assert run(file) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{file}: not a verdict of the gate: {says}: ")
    assert told.err.count("\n") == 1


def test_it_needs_nothing_but_python(tmp_path: Path) -> None:
    """The step that writes the summary has no other: its Python is not the environment's."""
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(verdict()))
    command = [sys.executable, "-S", "-m", "stateful_tests.summary", "--as", "word", str(file)]
    done = subprocess.run(  # noqa: S603 - our own module
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "valid\n", "")
