"""Programs as text: read back, kept by one command, caught again."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.contract import Blocked, Claim, Crash, Enqueue, Finish, Reopen, RunOnce, Ticket
from model.events import Consume
from stateful_tests import keep
from stateful_tests.acts import Act, Session
from stateful_tests.programs import SHIPPED, Malformed, Program, kept, parse, read, write

TICKET = Ticket("a", 5, "w", 1, 1, 100)
PROGRAMS = [
    Program("worker", ((1, Enqueue("a", 5, 0, 9)), (3, RunOnce("w", 0, 1, jitter=0.05, meanwhile=(Claim("x", 0),))))),
    Program("worker", ((2, Crash(Finish(TICKET, "ok", 5), "after-finish", "SystemExit")), (1, Reopen()))),
    Program("client", ((1, Blocked(Consume(b"EVENT 0 7\n\xff"))),)),
    Program("client sessions", ((1, Session((Act("gap", 0, "heard"),), "half-close", ("after-total", 2))),)),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_read_back(program: Program, tmp_path: Path) -> None:
    path = write(tmp_path, program.lines, "why it is here")
    assert path == tmp_path / f"{program.name}.txt"
    assert read(path) == program
    assert path.read_text().startswith("# why it is here\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x: line 1: must say what it is a program of: worker, client, client sessions"),
        ("# why\nqueue\n", "x: line 2: must say what it is a program of: worker, client, client sessions"),
        ("worker\n", "x: line 1: has no step"),
        ("worker\nClaim('w', 0)", "x: line 2: must begin with the number of a connection, 1 to 8"),
        ("worker\n9 Reopen()", "x: line 2: must begin with the number of a connection, 1 to 8"),
        ("worker\n\n1 Clam('w', 0)", "x: line 3: no operation of a worker: Clam('w', 0)"),
        ("client\n1 Claim('w', 0)", "x: line 2: no operation of a client: Claim('w', 0)"),
        ("worker\n1 __import__('os').abort()", "x: line 2: no operation of a worker: __import__('os').abort()"),
        ("client sessions\nSession((), 'bang', None)", "x: line 2: no session of a client: Session((), 'bang', None)"),
    ],
)
def test_no_program_is_one_line(text: str, says: str) -> None:
    with pytest.raises(Malformed) as refused:
        parse(text, "x")
    assert str(refused.value) == says


def test_what_is_kept_can_be_replayed() -> None:
    programs = [read(path) for path in kept(SHIPPED)]
    assert {program.of for program in programs} == {"worker", "client", "client sessions"}
    assert [path.stem for path in kept(SHIPPED)] == [program.name for program in programs]


def test_one_command_keeps_what_the_last_run_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "20261130-1"
    for program in PROGRAMS[:2]:
        write(run / "regressions", program.lines, "found as w:ci:1:3f9a2c11")
    (tmp_path / "latest").symlink_to(run.name)
    mine = tmp_path / "mine"
    assert keep.main(["--results", str(tmp_path), "--to", str(mine)]) == 0
    assert [read(path) for path in kept(mine)] == sorted(PROGRAMS[:2], key=lambda program: program.name)
    assert keep.main(["w:ci:1:3f9a2c11", "--results", str(tmp_path), "--to", str(mine)]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["kept", "kept", "already kept"]


@pytest.mark.parametrize("arguments", [[], ["w:ci:1:00000000"], ["none.txt"], ["--no-such-option"]])
def test_nothing_to_keep_is_one_line(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keep.main([*arguments, "--results", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fencepost: ")
