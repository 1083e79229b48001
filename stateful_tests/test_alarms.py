"""What is made of the answers of gates that must all be valid."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stateful_tests import alarms
from stateful_tests.alarms import Answer
from stateful_tests.hardship import Place, load, places


def said(monkeypatch: pytest.MonkeyPatch, words: list[str], *arguments: str) -> int:
    """The exit status where the gates say these words, one after the other; ``^C`` for an interrupt."""
    left = iter(words)

    def judge(seed: int, place: Place, *_: object) -> Answer:
        if (word := next(left)) == "^C":
            raise KeyboardInterrupt
        return Answer(f"seed {seed}, {place.name}", word, "why", 1.0)

    monkeypatch.setattr(alarms, "_judge", judge)
    return alarms.main(["--load", "0", "--slow-ms", "0", "--times", str(len(words)), *arguments])


@pytest.mark.parametrize(
    ("words", "status", "ends"),
    [
        (["valid", "valid", "valid"], 0, "valid    3 of 3"),
        (["valid", "invalid", "unknown"], 1, "valid    1 of 3"),
        (["valid", "^C", "valid"], 130, "valid    1 of 1"),
        (["^C"], 130, "interrupted"),
    ],
)
def test_only_valid_throughout_is_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], status: int, ends: str
) -> None:
    assert said(monkeypatch, words) == status
    out = capsys.readouterr().out
    assert ends in out
    assert out.count("--- alarm: ") == len(set(words) - {"valid", "^C"})


def test_a_seed_repeats_its_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    folders = ["--folder", str(tmp_path / "a"), str(tmp_path)]
    said(monkeypatch, ["valid"] * 3, *folders)
    line = capsys.readouterr().out.splitlines()[2]
    said(monkeypatch, ["valid"], "--seed", "3", *folders)
    assert capsys.readouterr().out.splitlines()[0] == line


def test_a_missing_folder_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        alarms.main(["--folder", "/none"])
    assert "argument --folder: /none: no such folder" in capsys.readouterr().err


def test_the_load_is_gone_afterwards(tmp_path: Path) -> None:
    with places([tmp_path], 0) as found, load(2, found):
        end = time.monotonic() + 40
        while len(list(found[0].folder.glob("load-*"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


SYNC = (
    "import os, time; fd = os.open('file', os.O_CREAT); began = time.monotonic(); [os.fsync(fd) for _ in range(100)]; "
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_one_sync_in_a_hundred_stalls(tmp_path: Path) -> None:
    with places([tmp_path], 300) as found:
        slow = found[-1]
        program = SYNC + "print(time.monotonic() - began > 0.3)"
        command = [sys.executable, "-c", program]
        done = subprocess.run(  # noqa: S603 - our own program
            command, cwd=slow.folder, env=slow.environment, capture_output=True, text=True, check=True
        )
    assert done.stdout == "True\n"
