"""The harness of the storm of receivers: what is drawn, what a file must hold, and what a broken module makes of it."""

# ruff: noqa: S311 - no secret is drawn here

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil
import pytest

from chaos import stream_storm
from chaos.killer import ROOT, Unanswered
from chaos.stream_aftermath import Reading, Unsound
from chaos.stream_weather import ENDS, Weather, course, fate, last_line, log
from model import stream
from model.contract import Raise
from model.counterexample import Violation
from model.events import BOUNDS, Apply, Consume
from model.store import load

SHIPPED = (ROOT / "client.py").read_text()
SMALL = Weather(events=300, kills=4, resends=20)
SHORT_LOG = [(0, 7), (1, -3), (2, 0)]

# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_a_log_is_within_its_bounds() -> None:
    drawn = log(Random(1), 1000)
    assert [seq for seq, _ in drawn] == list(range(1000))
    assert {delta for _, delta in drawn} >= {-1000, 0, 1000}
    assert all(BOUNDS["delta"].allows(delta) for _, delta in drawn)


def test_the_same_seed_draws_the_same() -> None:
    for draw in (fate, lambda random: course(random, 50), lambda random: log(random, 9)):
        assert draw(Random(3)) == draw(Random(3))


def test_all_kinds_of_death_are_drawn() -> None:
    random = Random(1)
    fates = [fate(random) for _ in range(300)]
    assert {each.hook for each in fates} == {"", "after-total", "after-commit"}
    assert all(each.strike_in <= each.calls for each in fates)
    assert sum(each.strike_in > 0 for each in fates) > 50
    assert sum(not each.hook and not each.strike_in for each in fates) > 20, "some live"


@pytest.mark.parametrize("end", ["skips", "contradicts", "babbles", "cuts off"])
def test_a_last_line_is_always_wrong(end: str) -> None:
    random, drawn = Random(1), log(Random(2), 50)
    state = stream.EMPTY
    for seq, delta in drawn[:20]:
        state, _ = stream.step(state, Apply(seq, delta))
    for _ in range(200):
        line = last_line(random, next(each for each in ENDS if each == end), drawn, 20)
        after, reply = stream.step(state, Consume(line))
        assert after is state
        assert isinstance(reply, Raise)


def test_what_happens_too_rarely_is_named() -> None:
    lacks = Weather().lacks({"receivers killed": 29, "events": 3000, "resends": 300})
    assert lacks == "29 receivers killed, must be 30"
    assert not Weather().lacks({"receivers killed": 30, "events": 3000, "resends": 300})


# --- what is demanded of the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DELETE FROM ledger WHERE seq = 0", r"ledger holds \(1, -3\), must hold \(0, 7\)"),
        ("DELETE FROM ledger WHERE seq = 1", "ledger has 1 rows when the last event is 1, must have 2"),
        ("INSERT INTO ledger VALUES (2, 0)", "ledger has 3 rows when the last event is 1, must have 2"),
        ("UPDATE ledger SET delta = 3 WHERE seq = 1", r"ledger holds \(1, 3\), must hold \(1, -3\)"),
        ("UPDATE checkpoint SET total = 5", "checkpoint: total is 5 at event 1, must be 4"),
        ("UPDATE checkpoint SET last = 3", "checkpoint holds"),
        ("DELETE FROM checkpoint", "checkpoint holds"),
        ("DROP TABLE ledger", "another connection cannot read: no such table: ledger"),
    ],
)
def test_a_file_that_holds_something_else_is_unsound(sql: str, what: str, tmp_path: Path) -> None:
    client = load(ROOT / "client.py")
    with contextlib.closing(client.open_store(tmp_path / "store.db")) as con:
        for seq, delta in SHORT_LOG[:2]:
            client.apply_event(con, seq, delta)
        reading = Reading(tmp_path / "store.db", SHORT_LOG)
        assert reading.whole() == reading.last() == 1
        con.execute(sql)
    with pytest.raises(Unsound, match=what):
        reading.whole()
    reading.close()


def test_a_file_that_is_missing_is_unsound(tmp_path: Path) -> None:
    with pytest.raises(Unsound, match="unable to open"):
        Reading(tmp_path / "none.db", SHORT_LOG).last()
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{tmp_path / 'none.db'}?mode=ro", uri=True)


# --- what a broken module makes of it ---------------------------------------------------------------------------------

LEAVES_TWO = """
def apply_event(con, seq, delta, fault=None, right=apply_event):
    if seq % 40 == 39 and _checkpoint(con)[0] == seq - 1:
        _write(con, lambda: con.execute("UPDATE checkpoint SET total = total + 1"))
        _write(con, lambda: con.execute("UPDATE checkpoint SET total = total - 1"))
    return right(con, seq, delta, lambda hook: (con.execute("COMMIT"), con.execute("BEGIN"), fault(hook))
                 if fault and hook == "after-total" else fault and fault(hook))
"""
EARLY = """
async def _receive(con, host, port, timeout, fault):
    reader, writer = await asyncio.open_connection(host, port, limit=64)
    try:
        await _send(writer, b"RESUME %d\\n" % _checkpoint(con)[0], timeout)
        while line := await _next_line(reader, timeout):
            await _send(writer, b"ACK %d\\n" % parse_line(line)[0], timeout)
            consume_line(con, line, fault)
    finally:
        writer.close()
"""
AGAIN = """
async def _receive(con, host, port, timeout, fault, right=_receive):
    try:
        await right(con, host, port, timeout, fault)
    except ConnectionError:
        await right(con, host, port, timeout, fault)
    else:
        await right(con, host, port, timeout, fault)
"""
FORGETS = """
def open_store(path, right=open_store):
    con = right(path)
    con.execute("UPDATE checkpoint SET last = -1, total = 0")
    return con
"""


def _processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "chaos.receivers" in child.cmdline()]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (LEAVES_TWO, "checkpoint: total is .* at event"),
        (EARLY, "is acknowledged when the file is at|the file is at .*: acknowledged was|sends b'ACK .* nothing there"),
        (AGAIN, "run_client connects again by itself"),
        (FORGETS, "run_client sends b'RESUME -1', must send b'RESUME |the file is at -1|when the last event is -1"),
        ("_require_same = lambda *_: None", "run_client sends b'ACK .*, must send nothing there"),
        ("def _checkpoint(con):\n    raise Gap('none')", "run_client raises Gap"),
        ("def open_store(path):\n    raise OSError('full')", "run_client raises OSError: full, and has not connected"),
    ],
    ids=["two commits", "acknowledges early", "reconnects", "forgets", "tolerates", "no RESUME", "no store"],
)
def test_a_broken_receiver_is_found(change: str, what: str, tmp_path: Path, did: Counter[str]) -> None:
    module = tmp_path / "wrong.py"
    module.write_text(f"{SHIPPED}\n{change}\n")
    with pytest.raises(Violation, match=what) as caught:
        stream_storm.check(Weather(), tmp_path / "store.db", module, 7, did)
    assert caught.value.program[-1].startswith("# receiver ")
    assert not _processes()


def test_a_storm_without_deaths_is_void(tmp_path: Path, did: Counter[str]) -> None:
    weather = replace(SMALL, kills=10_000, spare=0)
    with pytest.raises(Unanswered, match=r"the storm is void: \d+ receivers killed, must be 10000"):
        stream_storm.check(weather, tmp_path / "store.db", ROOT / "client.py", 7, did)
    assert did["events"] >= SMALL.events


def test_a_receiver_that_ends_its_process_is_no_answer(tmp_path: Path, did: Counter[str]) -> None:
    module = tmp_path / "wrong.py"
    module.write_text(f"{SHIPPED}\nopen_store = lambda *_: os._exit(3)\n")
    with pytest.raises(Unanswered, match=r"receiver 1, call 1 .*'died', \d+, 3\], and has not connected"):
        stream_storm.check(SMALL, tmp_path / "store.db", module, 7, did)
    assert not _processes()


def test_an_interrupt_leaves_no_process(tmp_path: Path, did: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chaos.stream_session.Session.judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream_storm.check(SMALL, tmp_path / "store.db", ROOT / "client.py", 7, did)
    assert not _processes()
