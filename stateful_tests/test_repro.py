"""A failure's token: what it says, what it brings back, and what it says when it brings nothing back."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stateful_tests import repro, tokens
from stateful_tests.position import BadPosition, Position
from stateful_tests.test_gate import ROOT, STATEFUL, edited, environment, gate
from stateful_tests.tokens import BadToken, Token, Versions, digest, parse, unlike

MADE = Versions("3.11", "6.170.17")


def again(command: str, results: Path) -> subprocess.CompletedProcess[str]:
    """The command that a failure prints, under our own Python."""
    words = [sys.executable, *shlex.split(command)[1:], "--results", str(results), "-p", "no:cacheprovider"]
    ours = environment(results)
    return subprocess.run(words, cwd=ROOT, env=ours, capture_output=True, text=True, timeout=100, check=False)  # noqa: S603 - our own


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (Token("worker", "ci", 1206202502, "3f9a2c11", versions=MADE), "w:ci:1206202502:3f9a2c11@3.11-6.170.17"),
        (Token("client", "soak", 7, "00000000", "12", MADE), "c:soak:7:00000000:12@3.11-6.170.17"),
        (Token("worker", "quick", -1, "abcdef01", "one/4"), "w:quick:-1:abcdef01:one/4"),
    ],
)
def test_a_token_is_read_back(token: Token, text: str) -> None:
    assert str(token) == text
    assert parse(text) == token


@pytest.mark.parametrize("text", ["", "x:ci:1:3f9a2c11", "w:ci:1:3f9a", "w:ci:one:3f9a2c11", "w:slow:1:3f9a2c11"])
def test_no_token_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadToken):
        parse(text)
    assert repro.main([text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fencepost: {text!r} is no token")


def test_a_token_of_the_other_kind_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert repro.main(["w:ci:1:3f9a2c11", "--client", "client.py"]) == 2
    assert capsys.readouterr().err == "fencepost: --client: the token is of a worker\n"


def test_other_versions_are_named() -> None:
    assert list(unlike(MADE, MADE)) == list(unlike(None, MADE)) == []
    assert [line.partition(",")[0] for line in unlike(MADE, Versions("3.12", "7.0"))] == [
        "the token was made under Python 3.11",
        "the token was made under Hypothesis 6.170.17",
    ]


def test_a_position_is_a_number_or_says_so() -> None:
    assert Position("12").number() == 12
    with pytest.raises(BadPosition):
        Position("one/4").number()


def test_a_token_names_one_check() -> None:
    names = repro.names_of(["--gate", "-n0", "--profile", "ci", "--seed", "1"])
    assert len({digest(name) for name in names}) == len(names) > 1000


def test_a_failure_of_each_layer_comes_again(tmp_path: Path) -> None:
    """Of each of those layers that need no second: the others are as this one."""
    file = edited(tmp_path, ":now_ms < lease_until", ":now_ms <= lease_until")
    clause = "stateful_tests/test_contract_finish.py::test_finish_is_refused[a lease is over at lease_until itself]"
    first = gate(tmp_path, "--worker", str(file), "--seed", "3", clause, "stateful_tests/test_transitions.py")
    failures = {failure["layer"]: failure for failure in reversed(first.verdict["failures"])}
    assert failures.keys() == {"contract", "transitions"}
    assert parse(failures["transitions"]["token"]).position.startswith("one/")
    for failure in failures.values():
        assert failure["token"] in first.out
        assert f"  replay  {failure['replay']}" in first.out.splitlines()
        done = again(failure["replay"], tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        (found,) = first.verdict["failures"]
        assert {**found, "seconds": 0, "covered": 0, "did": 0} == {**failure, "seconds": 0, "covered": 0, "did": 0}


def test_a_mended_failure_does_not_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOX_ENV_NAME", raising=False)
    token = Token("worker", "quick", 3, digest(f"{STATEFUL}::test_random_programs_agree_with_the_model[0]"))
    done = again(tokens.command(token, ROOT / "worker.py"), tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (
        2,
        ["repro: the failure did not come again", "verdict: unknown"],
    )


def test_a_token_of_another_version_is_one_line(tmp_path: Path) -> None:
    done = again("python -m stateful_tests.repro w:ci:1:00000000", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fencepost: no check of a worker is 00000000 here: the token is of another version\n"
