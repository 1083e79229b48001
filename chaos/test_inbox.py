"""The receiver itself: kept once, answered as told, held where told, and gone when nobody needs it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, cast

import psutil
import pytest

from chaos.courier import Unclear, deliver
from chaos.crew import Crew
from chaos.inbox import Hold, Inbox, Request, Turn, create, read, take
from chaos.killer import ROOT, Unanswered
from chaos.wire import acknowledgement
from model.queue import load

WORKER = load(ROOT / "worker.py")
EVENT = {"id": "a", "qty": 5}
KEPT_ONCE = Inbox((("a", 5),), 5)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(ROOT / "worker.py")
    yield crew
    crew.dismiss()


@pytest.fixture
def inbox(crew: Crew, tmp_path: Path) -> Path:
    """The file of a receiver that is at work and has no script."""
    crew.call()
    crew.script(tmp_path / "inbox.db")
    return tmp_path / "inbox.db"


def send(crew: Crew, event: dict[str, object] | None = None, timeout_s: float = 10) -> object:
    return deliver(WORKER, event or EVENT, crew.port, timeout_s)


def post(crew: Crew, body: str) -> tuple[int, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", crew.port, timeout=10)
    line.request("POST", "/", body)
    answer = line.getresponse()
    status, text = answer.status, answer.read()
    line.close()
    return status, text


# --- kept once --------------------------------------------------------------------------------------------------------


def test_a_delivery_is_kept_and_acknowledged(crew: Crew, inbox: Path) -> None:
    assert post(crew, json.dumps(EVENT)) == (200, acknowledgement(EVENT))
    assert read(inbox) == KEPT_ONCE
    assert crew.log() == [Request(json.dumps(EVENT), "new")]


def test_a_duplicate_is_acknowledged_and_changes_nothing(crew: Crew, inbox: Path) -> None:
    assert [send(crew), send(crew)] == [True, True]
    assert read(inbox) == KEPT_ONCE
    assert [request.kept for request in crew.log()] == ["new", "known"]


def test_another_quantity_is_a_conflict(crew: Crew, inbox: Path) -> None:
    send(crew)
    with pytest.raises(WORKER.Permanent, match="409"):
        send(crew, {"id": "a", "qty": 6})
    assert read(inbox) == KEPT_ONCE
    assert [request.kept for request in crew.log()] == ["new", "other"]


def test_the_effect_is_the_sum_of_all_deliveries(crew: Crew, inbox: Path) -> None:
    for event in (EVENT, {"id": "b", "qty": 7}, EVENT):
        send(crew, dict(event))
    assert read(inbox) == Inbox((("a", 5), ("b", 7)), 12)


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"id": "a"}', '{"id": "a", "qty": true}', '{"id": "a", "qty": 5, "x": 1}']
)
def test_what_is_no_delivery_is_refused(crew: Crew, inbox: Path, body: str) -> None:
    assert post(crew, body)[0] == 400
    assert read(inbox) == Inbox()
    assert crew.log() == [Request(body)]


def test_one_of_many_equal_deliveries_is_new(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    create(path)
    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(lambda _: take(path, "a", 5), range(8)))
    assert sorted(kept) == ["known"] * 7 + ["new"]
    assert read(path) == KEPT_ONCE


# --- answered and held as told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (Turn(429), WORKER.Retryable),
        (Turn(503, commits=False), WORKER.Retryable),
        (Turn(400, commits=False), WORKER.Permanent),
        (Turn(409), WORKER.Permanent),
        (Turn(500), Unclear),
        (Turn(204), Unclear),
        (Turn("cut off"), http.client.IncompleteRead),
        (Turn("reset"), ConnectionResetError),
        (Turn("reset", commits=False), ConnectionResetError),
    ],
    ids=str,
)
def test_a_script_decides_the_answer(crew: Crew, inbox: Path, turn: Turn, error: type[Exception]) -> None:
    crew.script(inbox, turn)
    with pytest.raises(error):
        send(crew)
    (request,) = crew.log()
    assert (request.kept, read(inbox)) == (("new", KEPT_ONCE) if turn.commits else ("not kept", Inbox()))
    assert send(crew) is True
    assert read(inbox) == KEPT_ONCE


def test_another_body_is_no_acknowledgement(crew: Crew, inbox: Path) -> None:
    crew.script(inbox, Turn("wrong body"))
    assert send(crew) == acknowledgement({"id": "a", "qty": 6}).decode()


@pytest.mark.parametrize(
    ("hold", "seen"),
    [
        ("before the commit", Inbox()),
        ("after the commit", KEPT_ONCE),
        ("before the answer", KEPT_ONCE),
        ("within the answer", KEPT_ONCE),
    ],
)
def test_a_request_stands_where_told(crew: Crew, inbox: Path, hold: Hold, seen: Inbox) -> None:
    crew.script(inbox, Turn(), Turn(hold=hold))
    send(crew, {"id": "z", "qty": 1})
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, crew)
        assert crew.stands() == [2, hold]
        rows, total = read(inbox)
        crew.release(2)
        assert sent.result() is True
    assert (rows[:-1], total - 1) == seen


def test_a_request_stands_though_nobody_waits_for_its_answer(crew: Crew, inbox: Path) -> None:
    crew.script(inbox, Turn(hold="within the answer"))
    (receiver,) = (child for child in psutil.Process().children() if "chaos.inbox" in child.cmdline())
    body = json.dumps(EVENT).encode()
    receiver.suspend()
    with socket.create_connection(("127.0.0.1", crew.port)) as sender:
        sender.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    receiver.resume()
    assert crew.stands() == [1, "within the answer"]
    assert read(inbox) == KEPT_ONCE
    crew.release(1)


def test_the_log_waits_for_requests_under_way(crew: Crew, inbox: Path) -> None:
    crew.script(inbox, Turn(hold="before the commit"))
    with pytest.raises(TimeoutError):
        send(crew, timeout_s=0.1)
    crew.stands()
    assert send(crew) is True
    crew.release(1)
    assert [request.kept for request in crew.log()] == ["known", "new"]


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_receiver_that_dies_has_kept_what_it_committed(crew: Crew, inbox: Path) -> None:
    crew.script(inbox, Turn(hold="after the commit"))
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, crew)
        crew.stands()
        crew.dismiss()
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            sent.result()
    assert read(inbox) == KEPT_ONCE
    crew.call()
    crew.script(inbox)
    assert send(crew) is True
    assert [request.kept for request in crew.log()] == ["known"]
    assert read(inbox) == KEPT_ONCE


def test_without_a_receiver_there_is_no_answer(crew: Crew) -> None:
    crew.dismiss()
    with pytest.raises(Unanswered, match="nobody has called for the receiver"):
        crew.log()


def test_no_process_outlives_the_harness(tmp_path: Path) -> None:
    harness = f"""
import sys
from pathlib import Path
import psutil
from chaos.courier import Order
from chaos.crew import Crew
from chaos.inbox import Turn
from model.contract import RunOnce
from model.queue import load
module, folder = Path({str(ROOT / "worker.py")!r}), Path({str(tmp_path)!r})
crew = Crew(module)
crew.call("first", "second")
worker = load(module)
con = worker.open_queue(folder / "queue.db")
worker.enqueue(con, {{"id": "a", "qty": 5}}, 0, 50_000)
con.close()
crew.script(folder / "inbox.db", Turn(hold="after the commit"))
crew.order("first", Order(str(folder / "queue.db"), repr(RunOnce("w", 0, 5)), crew.port))
crew.stands()
print(*(child.pid for child in psutil.Process().children()), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", harness], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            pids = cast("IO[str]", process.stdout).readline().split()
            children = [psutil.Process(int(pid)) for pid in pids]
        finally:
            process.kill()
    assert len(children) == 3
    _, alive = psutil.wait_procs(children, timeout=10)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
