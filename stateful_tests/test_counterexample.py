"""A failure's program is source that runs, and its first line says what differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from model import events, lease, queue, store, stream
from model.contract import (
    CLIENT,
    WORKER,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Kind,
    Odd,
    Op,
    Redrive,
    Reopen,
    Return,
    RunOnce,
    Ticket,
)
from model.counterexample import Line, Violation, differences, program, show
from model.events import Apply, Consume
from model.port import connect
from stateful_tests.clauses import Pair

TICKET = Ticket("a", 5, "w", token=1, attempt=1, lease_until=100)
OPS: tuple[Op, ...] = (
    Enqueue("a", 5, 0, 50_000),
    Blocked(Claim("w", 0, 100)),
    Crash(Claim("w", 0, 100), "after-claim", "KeyboardInterrupt"),
    Claim("w", 0, 100),
    Finish(TICKET, "retry", 1, 7),
    Reopen(),
    RunOnce("v", 8, 9, "retryable", 0.5, 100, (Enqueue("b", 2, 8, 100), Claim("w", 8, 10))),
    RunOnce("v", 60, 61, "permanent"),
    Redrive("a", 62, 50, "why"),
    Enqueue("a", 6, 0, 1),
    RunOnce("v", 62, 63, "bad-ack"),
)


EVENTS: tuple[events.Op, ...] = (
    Apply(0, 7),
    Blocked(Apply(1, -3)),
    Crash(Apply(1, -3), "after-total", "SystemExit"),
    Consume(b"EVENT 1 -3\n"),
    Crash(Consume(b"EVENT 2 0\n"), "after-commit", "KeyboardInterrupt"),
    Reopen(),
    Blocked(Consume(b"EVENT 3 1000\n")),
    Consume(b"EVENT 2 0\n"),
    Crash(Apply(3, 1000), "after-total", "SIGKILL"),
    Crash(Consume(b"EVENT 3 1000\n"), "after-commit", "SIGKILL"),
    Apply(2, 1),
    Apply(10**50, 0),
    Consume(b"EVENT 4 07\r\n"),
    Apply(4, 1001),
    Consume(b"EVENT 4 -1000\n"),
)
"""Each form and each error; the model gives the replies, since only a process of its own can be killed."""


def test_a_program_runs_as_it_is_printed(lockstep: Callable[[int], Pair], worker_path: Path, tmp_path: Path) -> None:
    pair = lockstep(2)
    for number, op in enumerate(OPS):
        pair.do(op, 1 + number % 2)
    pasted(tmp_path, worker_path, program(pair.lines), WORKER)
    with closing(connect(tmp_path / "pasted" / WORKER.file)) as con:
        assert differences(queue.observe(con), pair.state) == ""


def test_a_program_of_the_stream_runs_as_it_is_printed(client_path: Path, tmp_path: Path) -> None:
    state, lines = stream.EMPTY, []
    for number, op in enumerate(EVENTS):
        state, reply = stream.step(state, op)
        lines.append(Line(op, 1 + number % 2, reply))
    pasted(tmp_path, client_path, program(lines, CLIENT), CLIENT)
    with closing(connect(tmp_path / "pasted" / CLIENT.file)) as con:
        assert differences(store.observe(con), state) == ""
    assert stream.last_of(state) == 4


def pasted(folder: Path, module: Path, lines: Sequence[str], kind: Kind) -> None:
    """Run the program as a reader would, in the folder ``pasted``, beside a copy of the module."""
    place = folder / "pasted"
    place.mkdir()
    (place / f"{kind.name}.py").write_text(module.read_text())
    subprocess.run(  # noqa: S603 - our own source
        [sys.executable, "-c", "\n".join(lines)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": ""},
        check=True,
        timeout=60,
    )


def test_each_differing_column_is_named() -> None:
    queued, _ = lease.step(lease.EMPTY, Enqueue("a", 5, 0, 50_000))
    leased, _ = lease.step(queued, Claim("w", 0, 100))
    assert differences(leased, queued) == (
        "jobs row 'a': status is 'leased', must be 'pending'; attempts is 1, must be 0; token is 1, must be 0; "
        "owner is 'w', must be NULL; lease_until is 100, must be NULL"
    )
    assert differences(lease.EMPTY, queued) == "jobs has 0 rows, must have 1"
    assert differences(queued, queued) == ""


def test_a_reply_reads_as_python_shows_it() -> None:
    assert show(Return(Odd("[1]"))) == "[1]"
    assert show(Return("done")) == "'done'"
    assert show(Return(TICKET)).startswith("{'id': 'a', 'qty': 5, ")


def test_a_difference_is_one_line() -> None:
    violation = Violation("two\n  lines", ["a", "b"])
    assert str(violation).splitlines() == ["two lines", "    a", "    b"]


def test_a_wrong_reply_stops_the_program(lockstep: Callable[[], Pair]) -> None:
    pair = lockstep()
    pair.do(Enqueue("a", 5, 0, 50_000))
    pair.state = lease.EMPTY
    with pytest.raises(Violation, match=r"^worker\.claim\(con1, 'w', 0, 1000\) returns \{.*\}, must return None\n"):
        pair.do(Claim("w", 0))
