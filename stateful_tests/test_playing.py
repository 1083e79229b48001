"""The harness of the sessions: its programs run as they are printed, and it sees what a session leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model import stream
from model.counterexample import Violation
from model.store import Client
from stateful_tests.acts import Act, Flow, Kind, Session
from stateful_tests.clog import FIRST, SECOND
from stateful_tests.playing import DieAt
from stateful_tests.sessions import Sessions
from stateful_tests.unfair import play

Run = Callable[..., Awaitable[object]]


@contextlib.contextmanager
def sessions_with(run: Run, folder: Path) -> Iterator[Sessions]:
    client = cast("Client", SimpleNamespace(run_client=run))
    with Sessions(client, folder / "store.db", Counter()) as sessions:
        yield sessions


async def polite(_: Path, host: str, port: int, *__: object) -> tuple[int, int]:
    """One session in which nothing happens."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"RESUME -1\n")
    await reader.read()
    writer.close()
    await writer.wait_closed()
    return -1, 0


def test_a_program_runs_as_it_is_printed(sessions: Sessions, client_path: Path, tmp_path: Path) -> None:
    sessions.welcome(-1)
    sessions.send(FIRST, SECOND)
    sessions.hear_acks(0, 1)
    sessions.publisher.half_close()
    sessions.returns(1, 12)
    sessions.welcome(1, fault=DieAt("after-total", Exception("planted")))
    sessions.send(b"EVENT 2 0\n")
    sessions.publisher.half_close()
    sessions.raises()
    (folder := tmp_path / "pasted").mkdir()
    shutil.copy(client_path, folder / "client.py")
    program = [sys.executable, "-c", "\n".join(sessions.publisher.program())]
    ran = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (ran.returncode, ran.stdout) == (0, "(1, 12)\n"), ran.stderr
    assert "in fault" in ran.stderr


def test_a_polite_session_is_no_violation(tmp_path: Path) -> None:
    with sessions_with(polite, tmp_path) as sessions:
        sessions.welcome(-1)
        sessions.publisher.half_close()
        sessions.returns(-1, 0)


async def twice(path: Path, host: str, port: int, *_: object) -> tuple[int, int]:
    await polite(path, host, port)
    return await polite(path, host, port)


async def with_a_task(path: Path, host: str, port: int, *_: object) -> tuple[int, int]:
    sleep = asyncio.create_task(asyncio.sleep(60))
    await polite(path, host, port)
    assert not sleep.done()
    return -1, 0


async def with_a_file(path: Path, host: str, port: int, *_: object) -> tuple[int, int]:
    LEFT.append(path.open("w"))
    return await polite(path, host, port)


async def with_a_socket(_: Path, host: str, port: int, *__: object) -> tuple[int, int]:
    LEFT.append(socket.create_connection((host, port)))
    LEFT[-1].sendall(b"RESUME -1\n")
    return -1, 0


LEFT: list[Any] = []
LEFT_BEHIND: dict[Run, str] = {
    twice: "connects a second time in one call",
    with_a_task: "leaves tasks behind",
    with_a_file: "leaves the store file open",
    with_a_socket: "leaves its connection open",
}


@pytest.mark.parametrize("run", LEFT_BEHIND, ids=lambda run: run.__name__)
def test_what_a_session_leaves_behind_is_seen(tmp_path: Path, run: Run) -> None:
    with sessions_with(run, tmp_path) as sessions:
        sessions.welcome(-1)
        sessions.publisher.half_close()
        with pytest.raises(Violation, match=LEFT_BEHIND[run]):
            sessions.returns(-1, 0)
    for thing in LEFT:
        thing.close()
    LEFT.clear()


@pytest.mark.parametrize("flow", ["held", "sent", "cut", "heard"])
@pytest.mark.parametrize("kind", ["next", "again", "other", "gap", "bad", "long"])
def test_every_kind_of_line_can_be_played(sessions: Sessions, kind: Kind, flow: Flow) -> None:
    state = play(sessions, Session((Act("next", 0, "heard"),), "close", None), stream.EMPTY)
    after = play(sessions, Session((Act(kind, 1, flow),), "half-close", None), state)
    assert (after != state) == (kind == "next")
