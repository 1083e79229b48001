"""The harness of the client's layer "delivery": what its experiments demand, and what a broken module makes of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaos import onlooker
from chaos.exchange import Exchange
from chaos.killer import ROOT, Unanswered
from chaos.matrix import Void
from chaos.reception import check
from chaos.sessions import DEATHS, EXPERIMENTS, HOOKS, LOG, RESENDS, RETAINED, WRONG, Experiment, Session, lines
from model.counterexample import Violation
from model.events import FAULT_HOOKS, Consume
from model.store import Store, load

SHIPPED = (ROOT / "client.py").read_text()
CLOSING = "killed before ACK 1 leaves"

# --- what is demanded -------------------------------------------------------------------------------------------------


def test_the_closing_check_is_the_contracts_own() -> None:
    first, second = EXPERIMENTS[CLOSING].stories()
    assert EXPERIMENTS[CLOSING].sessions[0].dies == "after-commit"
    assert first.saw == [b"RESUME -1\n", b"ACK 0\n"]
    assert [line for line, _ in second.lines] == [b"EVENT 1 -3\n", b"EVENT 2 5\n"]
    assert second.saw == [b"RESUME 1\n", b"ACK 1\n", b"ACK 2\n"]
    assert (second.ends, second.left.checkpoint[0][1:]) == ("returns (2, 9)", (2, 9))


def test_every_experiment_has_a_name_of_its_own() -> None:
    assert len(EXPERIMENTS) == len([*DEATHS, *RESENDS, *WRONG, *RETAINED])


def test_a_receiver_dies_in_every_hook() -> None:
    assert list(HOOKS) == [hook.name for hook in FAULT_HOOKS if hook.op is Consume]
    assert {session.dies for each in DEATHS for session in each.sessions} > set(HOOKS)


@pytest.mark.parametrize("experiment", WRONG, ids=lambda each: each.name)
def test_a_wrong_line_changes_nothing(experiment: Experiment) -> None:
    _, wrong, after = experiment.stories()
    assert wrong.ends.startswith("raises ")
    assert wrong.left == wrong.found == after.found
    assert after.ends == "returns (6, 11)"


@pytest.mark.parametrize("experiment", RETAINED, ids=lambda each: each.name)
def test_a_replay_is_whole_or_refused(experiment: Experiment) -> None:
    story = next(story for story in experiment.stories() if story.replays)
    assert story.replays in ("well", "ResyncRequired")
    assert story.replays == "well" or not story.lines


@pytest.mark.parametrize(
    ("sessions", "why"),
    [
        ((Session(lines(0, 1), "waiting"),), "nobody takes over"),
        ((Session(lines(0, 1)), Session(lines(1, 1), "after-total"), Session()), "after-total is not reached"),
    ],
)
def test_an_experiment_that_cannot_fail_is_void(sessions: tuple[Session, ...], why: str) -> None:
    with pytest.raises(Void, match=f"unseen: {why}"):
        Experiment("unseen", sessions, LOG)


# --- what a broken module makes of it ---------------------------------------------------------------------------------


@pytest.fixture
def exchanges() -> Iterator[list[Exchange]]:
    exchanges: list[Exchange] = []
    yield exchanges
    for exchange in exchanges:
        exchange.dismiss()


def _wrong(folder: Path, exchanges: list[Exchange], change: str) -> tuple[Exchange, Store]:
    module = folder / "wrong.py"
    module.write_text(f"{SHIPPED}\n{change}\n")
    exchanges.append(Exchange(module))
    return exchanges[-1], Store(load(module), folder / "store.db")


def _processes() -> list[str]:
    found = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    return [line for line in found if "chaos.publisher" in line or "chaos.receiver" in line]


FORGETS = """
def open_store(path, right=open_store):
    con = right(path)
    con.execute("UPDATE checkpoint SET last = -1, total = 0")
    return con
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
TWICE = """
async def _receive(con, host, port, timeout, fault, right=_receive):
    await right(con, host, port, timeout, fault)
    await right(con, host, port, timeout, fault)
"""
NEWEST = """
def replay(log, cursor, limit, right=replay):
    return right(log, max(cursor, log[0][0] - 1), limit)
"""
TOLERANT = "_require_same = lambda *_: None"
SPLIT = """
_UPDATE = "UPDATE checkpoint SET total = total + ? WHERE id = 1"
def _apply(con, seq, delta, fault, right=_apply):
    con.execute("COMMIT")
    con.execute("INSERT OR IGNORE INTO ledger VALUES (?, ?)", (seq, delta))
    con.execute("BEGIN IMMEDIATE")
    con.execute("DELETE FROM ledger WHERE seq = ?", (seq,))
    return right(con, seq, delta, fault)
"""
SILENT = "consume_line = lambda con, data, fault: b''"
NEEDY = """
def consume_line(con, data, fault=None, right=consume_line):
    try:
        return right(con, data, fault)
    except sqlite3.OperationalError:
        return b"ACK %d\\n" % parse_line(data)[0]
"""
PATIENT = """
def open_store(path, right=open_store):
    con = right(path)
    con.execute("PRAGMA busy_timeout = 9000")
    return con
"""
RUN = "run_client of receiver"


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        (CLOSING, FORGETS, f"{RUN} 2 sends 'RESUME -1\\n', must send 'RESUME 1\\n'"),
        (CLOSING, EARLY, f"{RUN} 1 sends 'ACK 1\\n', must send nothing there"),
        ("nothing at all", TWICE, f"{RUN} 1 connects again by itself"),
        (
            "only the newest event is retained",
            NEWEST,
            "replay to the cursor 4, 16 at a time: hands out 7:1, must be: hands out nothing, then ResyncRequired",
        ),
        ("a conflict with an earlier event", TOLERANT, f"{RUN} 2 sends 'ACK 1\\n', must send nothing there"),
        (
            "killed in after-total of the first event",
            SPLIT,
            "receiver 1, while it is in after-total: ledger has 1 rows, must have 0",
        ),
        (
            "killed between ACK 0 and the next line",
            SILENT,
            f"{RUN} 1 sends nothing where it must send 'ACK 0\\n' (raises TimeoutError:)",
        ),
    ],
    ids=["forgets", "acknowledges early", "reconnects", "newest only", "tolerates", "two commits", "silent"],
)
def test_a_broken_reception_is_found(
    name: str,
    change: str,
    line: str,
    tmp_path: Path,
    exchanges: list[Exchange],
    did: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chaos.killer.PATIENCE_S", 4.0 if change == SILENT else 20.0)
    with pytest.raises(Violation) as caught:
        check(EXPERIMENTS[name], *_wrong(tmp_path, exchanges, change), did)
    assert caught.value.difference == line
    assert caught.value.program[0] == f"# {name}"
    assert not did
    assert not _processes()


def test_an_ack_under_a_readers_lock_is_found(tmp_path: Path, exchanges: list[Exchange], did: Counter[str]) -> None:
    with pytest.raises(Violation, match="after an ACK while the file is read: checkpoint row 1: last is 1, must be 2"):
        onlooker.check(2, *_wrong(tmp_path, exchanges, NEEDY), did)


def test_who_waits_for_a_reader_is_right_too(
    tmp_path: Path, exchanges: list[Exchange], did: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onlooker, "LOOKS_S", 0.3)
    onlooker.check(2, *_wrong(tmp_path, exchanges, PATIENT), did)
    assert did == {"sessions": 3}


def test_a_program_shows_what_was_seen(tmp_path: Path, exchanges: list[Exchange], did: Counter[str]) -> None:
    with pytest.raises(Violation) as caught:
        check(EXPERIMENTS[CLOSING], *_wrong(tmp_path, exchanges, FORGETS), did)
    folder = tmp_path / "pasted"
    folder.mkdir()
    (folder / "client.py").write_text((tmp_path / "wrong.py").read_text())
    (folder / "pasted.py").write_text("\n".join(caught.value.program))
    done = subprocess.run(
        [sys.executable, "pasted.py"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[:2] == [r"b'RESUME -1\nACK 0\n'", r"b'RESUME -1\n'"]


def test_what_a_module_prints_is_no_word(tmp_path: Path, exchanges: list[Exchange], did: Counter[str]) -> None:
    loud = "print('loading')\ndef parse_line(data, right=parse_line):\n    print('parsing')\n    return right(data)"
    check(EXPERIMENTS[CLOSING], *_wrong(tmp_path, exchanges, loud), did)
    assert did == {"sessions": 2, "receivers killed": 1, "lines sent": 4}


def test_a_receiver_that_ends_is_no_answer(tmp_path: Path, exchanges: list[Exchange], did: Counter[str]) -> None:
    with pytest.raises(Unanswered, match="ended before its next word, with status 3: bye"):
        check(
            EXPERIMENTS[CLOSING],
            *_wrong(tmp_path, exchanges, "open_store = lambda *_: (print('bye', flush=True), os._exit(3))"),
            did,
        )
    assert not _processes()


def test_an_interrupt_leaves_no_process(
    tmp_path: Path, exchanges: list[Exchange], did: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Exchange) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Exchange, "kill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check(EXPERIMENTS[CLOSING], *_wrong(tmp_path, exchanges, ""), did)
    assert not _processes()
