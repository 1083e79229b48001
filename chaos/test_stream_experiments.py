"""The harness and receivers: every row of the hook table, no void row, and what is said of receivers that are wrong."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, cast, get_args

import pytest

from chaos import files, stages
from chaos.company import vary
from chaos.deaths import dying_opening
from chaos.killer import ROOT
from chaos.matrix import Void, matrix, statements
from chaos.openings import STORE_OPENINGS, Opening, check_opening
from chaos.rivals import STREAM_SCHEDULES
from chaos.schedules import Schedule, by_hook
from chaos.schedules import check as check_schedule
from chaos.stream_experiments import EXPERIMENTS, MATRIX, SCENES, SPILLED, STATEMENTS, StreamExperiment
from chaos.trial import check, look
from model.contract import CLIENT, Hook, Reopen
from model.counterexample import Violation
from model.events import FAULT_HOOKS, Apply, Consume, Plain, State
from model.store import Client, Store, load
from model.stream import hooks_reached

SHIPPED: Final = ROOT / "client.py"


def name_of(experiment: StreamExperiment | Opening) -> str:
    return experiment.name


# --- the matrix -------------------------------------------------------------------------------------------------------


def test_every_hook_of_the_stream_has_experiments() -> None:
    assert {experiment.hook for experiment in MATRIX} == set(FAULT_HOOKS)


def test_every_scene_is_killed_in_every_hook() -> None:
    hooks = {scene.name: {row.hook for row in MATRIX if row.scene == scene.name} for scene in SCENES}
    assert hooks == {scene.name: {hook for hook in FAULT_HOOKS if hook.op is type(scene.op)} for scene in SCENES}


def test_every_operation_is_killed_at_every_statement() -> None:
    killed = {(type(row.op), row.hook.name) for row in STATEMENTS}
    assert killed == {(op, stage.name) for op in get_args(Plain) for stage in statements(op)}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=name_of)
def test_no_experiment_is_void(experiment: StreamExperiment) -> None:
    lost, kept = experiment.outcomes()
    assert lost != kept


def test_an_event_without_effect_on_the_total_is_not_void() -> None:
    (row,) = (row for row in MATRIX if row.name == "event of delta 0, killed in after-total")
    lost, kept = row.outcomes()
    assert lost.checkpoint[0].total == kept.checkpoint[0].total


@pytest.mark.parametrize("op", [Apply(0, 7), Consume(b"EVENT 0 7\n"), Apply(9, 7), Consume(b"EVENT 0 7")])
def test_an_event_that_changes_nothing_is_refused(op: Plain) -> None:
    setup = (Apply(0, 7),)
    void = replace(MATRIX[0], setup=setup, op=op, hook=Hook("after-total", type(op), kept=False))
    with pytest.raises(Void, match="lost and kept are the same state"):
        void.outcomes()


def test_a_hook_without_an_experiment_is_refused() -> None:
    hooks = [*FAULT_HOOKS, Hook("after-reopen", Reopen, kept=False)]
    with pytest.raises(Void, match="after-reopen of Reopen: the hook is listed, but no experiment reaches it"):
        matrix(StreamExperiment, hooks, SCENES)
    with pytest.raises(Void, match="after-reopen of Reopen: the hook is listed, but no schedule reaches it"):
        by_hook(hooks, SCENES, lambda _: ())


def test_a_hook_that_never_fires_is_refused() -> None:
    with pytest.raises(Void, match="first event, killed in after-lunch: the hook is listed, but never fired"):
        replace(MATRIX[0], hook=Hook("after-lunch", Apply, kept=False)).outcomes()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=name_of)
def test_company_makes_no_experiment_void(experiment: StreamExperiment) -> None:
    varied = [vary(experiment, f"{seed}") for seed in range(20)]
    assert all(one.outcomes()[0] != one.outcomes()[1] and one.hook == experiment.hook for one in varied)
    assert sum(one != experiment for one in varied) > 15


def test_company_keeps_the_sign_of_a_delta() -> None:
    for experiment in MATRIX:
        if isinstance(experiment.op, Apply):
            for seed in range(20):
                varied = vary(experiment, f"{seed}")
                assert (varied.op.delta > 0, varied.op.delta < 0) == (experiment.op.delta > 0, experiment.op.delta < 0)


@pytest.mark.parametrize("hook", FAULT_HOOKS, ids=lambda hook: f"{hook.op.__name__} in {hook.name}")
def test_every_kind_of_rival_meets_every_hook(hook: Hook) -> None:
    schedules = STREAM_SCHEDULES[hook]
    assert all(hook in hooks_reached(_before(schedule), schedule.scene.op) for schedule in schedules)
    rivals = {type(schedule.rival) for schedule in schedules}
    assert rivals == {type(None), Apply, Consume}
    assert {schedule.dies for schedule in schedules} == {False, True}
    assert {schedule.lock for schedule in schedules} == {"must", "must not"}


def _before(schedule: Schedule) -> State:
    state: State = StreamExperiment("", schedule.scene.setup, schedule.scene.op, schedule.hook).before()
    return state


# --- what is said of wrong receivers ----------------------------------------------------------------------------------


def module(folder: Path, *edits: tuple[str, str], after: str = "") -> Path:
    """The shipped module with a few words of it replaced, and something after it."""
    text = SHIPPED.read_text()
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / "wrong.py"
    path.write_text(f"{text}\n{after}\n")
    return path


CURSOR = '    con.execute("UPDATE checkpoint SET last = ? WHERE id = 1", (seq,))\n'
TOTAL = '    con.execute("UPDATE checkpoint SET total = total + ? WHERE id = 1", (delta,))\n'
LOOK = "    if _missing_tables(con) or _missing_checkpoint(con):\n"
APART = '    con.execute("COMMIT")\n    con.execute("BEGIN IMMEDIATE")\n'
HALF = "con.execute('UPDATE checkpoint SET total = 99 WHERE id = 1')"
DELETES_THE_JOURNAL = """
def open_store(path, right=open_store):
    with contextlib.suppress(OSError):
        os.unlink(str(path) + "-journal")
    return right(path)
"""

WRONG: Final[dict[str, tuple[str, tuple[tuple[str, str], ...], str, str]]] = {
    "moves its cursor in a second transaction": (
        "later event, killed in commit-done",
        ((CURSOR, APART + CURSOR),),
        "",
        "after SIGKILL in commit-done (later event): checkpoint row 1: last is 2, must be 3",
    ),
    "commits before after-total": (
        "first event, killed in after-total",
        (('    _reach(fault, "after-total")\n', APART + '    _reach(fault, "after-total")\n'),),
        "",
        "after SIGKILL in after-total (first event): checkpoint row 1: total is 7, must be 0",
    ),
    "swaps the names of its hooks": (
        "first event line, killed in after-total",
        (
            ('_reach(fault, "after-total")', '_reach(fault, "after-commit", 0)'),
            ('_reach(fault, "after-commit")\n', '_reach(fault, "after-total")\n'),
            ("hook: str) -> None:", "hook: str, _: int = 0) -> None:"),
        ),
        "",
        (
            "on the way to after-total (first event line): client.consume_line calls after-commit, after-total, must"
            " call after-total"
        ),
    ),
    "forgets its total when it resumes": (
        "later event, killed in after-commit",
        ((LOOK, "    if not _missing_tables(con): con.execute('UPDATE checkpoint SET total = 0')\n" + LOOK),),
        "",
        "after SIGKILL in after-commit (later event): checkpoint row 1: total is 5, must be 12",
    ),
    "forgets its cursor when it resumes": (
        "event of delta 0, killed in after-total",
        ((LOOK, "    if not _missing_tables(con): con.execute('UPDATE checkpoint SET last = -1')\n" + LOOK),),
        "",
        "on the way to after-total (event of delta 0): client.apply_event raises Gap, never called after-total",
    ),
    "leaves out a delta of 0": (
        "event of delta 0, killed in after-total",
        ((TOTAL + "    _reach(", "    if delta == 0:\n        return True\n" + TOTAL + "    _reach("),),
        "",
        "on the way to after-total (event of delta 0): client.apply_event returns True, never called after-total",
    ),
    "passes no fault on": (
        "first event line, killed in after-commit",
        (("    apply_event(con, seq, delta, fault)\n", "    apply_event(con, seq, delta)\n"),),
        "",
        (
            "on the way to after-commit (first event line): client.consume_line returns b'ACK 0\\n', never called"
            " after-commit"
        ),
    ),
    "deletes the journal": (
        "event that has spilled into the file, killed in before-commit",
        (),
        DELETES_THE_JOURNAL,
        "after SIGKILL in before-commit (event that has spilled into the file): ledger has 33 rows, must have 32",
    ),
    "has no journal": (
        "event line that has spilled into the file, killed in after-total",
        (("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = OFF"), ('("delete",)', '("off",)')),
        "",
        "after SIGKILL in after-total (event line that has spilled into the file): ledger has 33 rows, must have 32",
    ),
}
BY_NAME: Final = {experiment.name: experiment for experiment in EXPERIMENTS}


@pytest.mark.parametrize(("name", "edits", "after", "line"), WRONG.values(), ids=WRONG)
def test_a_wrong_receiver_is_told_what_it_does(
    name: str, edits: tuple[tuple[str, str], ...], after: str, line: str, tmp_path: Path, did: Counter[str]
) -> None:
    path = module(tmp_path, *edits, after=after)
    with pytest.raises(Violation) as caught:
        check(BY_NAME[name], Store(load(path), tmp_path / "judged.db"), path, did)
    assert caught.value.difference == line
    if line.startswith("after SIGKILL"):
        assert _again(caught.value, tmp_path) == look(Store(load(SHIPPED), tmp_path / "judged.db"))


WRITES_BEFORE: Final = f"""
def apply_event(con, seq, delta, fault=None, right=apply_event):
    {HALF}
    return right(con, seq, delta, fault)
"""


@pytest.mark.parametrize("stage", [stages.BEFORE_BEGIN, stages.AFTER_WRITE, stages.BEFORE_COMMIT])
@pytest.mark.parametrize("scene", ["first event", "first event line"])
def test_the_program_of_a_violation_shows_it_again(scene: str, stage: str, tmp_path: Path, did: Counter[str]) -> None:
    path = module(tmp_path, after=WRITES_BEFORE)
    with pytest.raises(Violation) as caught:
        check(BY_NAME[f"{scene}, killed in {stage}"], Store(load(path), tmp_path / "judged.db"), path, did)
    assert caught.value.difference.endswith(": checkpoint row 1: total is 99, must be 0")
    assert _again(caught.value, tmp_path).checkpoint[0].total == 99


def _again(violation: Violation, folder: Path) -> State:
    """What the program of a violation leaves."""
    text = "\n".join(violation.program).replace("import client", "import wrong as client", 1)
    subprocess.run([sys.executable, "-c", text], cwd=folder, check=True)  # noqa: S603 - the program is ours
    return cast("State", look(Store(load(SHIPPED), folder / "store.db")))


def test_a_tight_transaction_leaves_a_hot_journal(tmp_path: Path, did: Counter[str]) -> None:
    for number, experiment in enumerate(SPILLED):
        check(experiment, Store(load(SHIPPED), tmp_path / f"{number}.db"), SHIPPED, did)
    assert did == {"processes killed": 4, "lost": 4, "journals rolled back": 4}


# --- openings ---------------------------------------------------------------------------------------------------------


CREATE = "        _write(con, lambda: _create(con))\n"
WRONG_OPENERS: Final[dict[str, tuple[str, str, str, str]]] = {
    "makes each table in a transaction of its own": (
        "opening of a new store, killed in commit-done",
        CREATE,
        "        for table in _missing_tables(con): _write(con, lambda: con.execute(_TABLES[table]))\n" + CREATE,
        "the schema is TABLE checkpoint, must be TABLE checkpoint, TABLE ledger",
    ),
    "adds the row in a second transaction": (
        "opening of a store without checkpoint, killed in commit-done",
        CREATE,
        "        _write(con, lambda: [con.execute(_TABLES[table]) for table in _missing_tables(con)])\n" + CREATE,
        "checkpoint has 0 rows, must have 1",
    ),
    "uses no transaction": (
        "opening of a store without ledger, killed in before-begin",
        CREATE,
        "        _create(con)\n",
        "client.open_store returns a connection, never came to before-begin",
    ),
    "looks for tables only": (
        "opening of a store without the row of checkpoint, killed in before-begin",
        LOOK,
        "    if _missing_tables(con):\n",
        "client.open_store returns a connection, never came to before-begin",
    ),
    "opens a new file only": (
        "opening of a store without ledger, killed in before-begin",
        LOOK,
        "    assert len(_missing_tables(con)) != 1, 'half'\n" + LOOK,
        "client.open_store raises AssertionError: half, in another process",
    ),
}
OPENING_BY_NAME: Final = {opening.name: opening for opening in STORE_OPENINGS}


@pytest.mark.parametrize(("name", "old", "new", "line"), WRONG_OPENERS.values(), ids=WRONG_OPENERS)
def test_a_wrong_opener_is_told_what_it_does(
    name: str, old: str, new: str, line: str, tmp_path: Path, did: Counter[str]
) -> None:
    path = module(tmp_path, (old, new))
    opening = OPENING_BY_NAME[name]
    with pytest.raises(Violation) as caught:
        check_opening(opening, Store(load(path), tmp_path / "judged.db"), path, did)
    assert caught.value.difference == f"{_when(line)} {opening.stage} ({opening.scene}): {line}"


def _when(line: str) -> str:
    return "on the way to" if line.startswith("client.") else "after SIGKILL in"


@pytest.mark.parametrize("opening", STORE_OPENINGS, ids=name_of)
def test_the_program_of_an_opening_kills_it_there(opening: Opening, tmp_path: Path) -> None:
    module(tmp_path)
    text = "\n".join(dying_opening(CLIENT, opening.spoilt, opening.stage))
    command = [sys.executable, "-c", text.replace("import client", "import wrong as client")]
    subprocess.run(command, cwd=tmp_path, check=True)  # noqa: S603 - the program is ours
    left = files.look(Store(load(SHIPPED), tmp_path), tmp_path / "store.db")
    whole = files.Left(("TABLE checkpoint", "TABLE ledger"), State())
    assert (left.differs(whole) == "") == opening.kept


def test_an_opener_may_look_in_a_transaction_of_its_own(tmp_path: Path, did: Counter[str]) -> None:
    path = module(
        tmp_path, (LOOK, '    con.execute("BEGIN")\n    _missing_tables(con)\n    con.execute("COMMIT")\n' + LOOK)
    )
    for number, opening in enumerate(STORE_OPENINGS):
        check_opening(opening, Store(load(path), tmp_path / f"{number}.db"), path, did)


def test_an_opening_that_makes_nothing_is_refused(tmp_path: Path, did: Counter[str]) -> None:
    whole = replace(STORE_OPENINGS[0], spoilt=("DELETE FROM ledger",))
    with pytest.raises(Void, match="opening of a new store, killed in before-second-create: nothing is missing"):
        check_opening(whole, Store(load(SHIPPED), tmp_path / "store.db"), SHIPPED, did)
    assert not did


# --- schedules --------------------------------------------------------------------------------------------------------


STALE: Final = (
    ("    _event(seq, delta)\n    if fresh", "    _event(seq, delta)\n    last, _ = _checkpoint(con)\n    if fresh"),
    ("_apply(con, seq, delta, fault))", "_apply(con, seq, delta, fault, last))"),
    ("delta: int, fault: _Fault | None) -> bool:", "delta: int, fault: _Fault | None, last: int) -> bool:"),
    ("    last, _ = _checkpoint(con)\n    if seq > last + 1", "    if seq > last + 1"),
)
"""It reads its cursor before it has the lock."""

IN_A_TRANSACTION: Final = (
    (
        "    last, _ = _checkpoint(con)\n    if fresh",
        "    last, _ = _write(con, lambda: _checkpoint(con))\n    if fresh",
    ),
)

WRONG_RIVALS: Final[dict[str, tuple[str, tuple[tuple[str, str], ...], str]]] = {
    "reads its cursor before its BEGIN": (
        stages.BEFORE_BEGIN,
        STALE,
        "client.apply_event(con1, 0, 7) raises IntegrityError: UNIQUE constraint failed: ledger.seq, must return False",
    ),
    "reads its cursor in a transaction before": (
        stages.BEFORE_SECOND_BEGIN,
        (*STALE, *IN_A_TRANSACTION),
        "client.apply_event(con1, 0, 7) has a second BEGIN, and no order explains what it and {} leave".format(
            "client.apply_event(con2, 0, 7)"
        ),
    ),
    "begins without the write lock": (
        "after-total",
        (('"BEGIN IMMEDIATE"', '"BEGIN"'),),
        "client.apply_event(con2, 1, 3) raises Gap, must raise database is locked",
    ),
    "keeps its lock after its COMMIT": (
        "after-commit",
        (
            (
                '    _reach(fault, "after-commit")\n',
                '    con.execute("BEGIN IMMEDIATE"); _reach(fault, "after-commit"); con.execute("ROLLBACK")\n',
            ),
        ),
        "client.apply_event(con2, 0, 7) raises database is locked, must return False",
    ),
    "keeps readers out": (
        "after-total",
        (('"BEGIN IMMEDIATE"', '"BEGIN EXCLUSIVE"'),),
        "another connection cannot read: database is locked",
    ),
    "leaves its transaction open after an error": (
        "after-total",
        (
            (
                '            con.execute("ROLLBACK")\n        raise\n    return result\n',
                "            pass\n        raise\n    return result\n",
            ),
        ),
        "a transaction is left open on its connection",
    ),
}


@pytest.mark.parametrize(("hook", "edits", "line"), WRONG_RIVALS.values(), ids=WRONG_RIVALS)
def test_a_wrong_schedule_is_told_at_once(
    hook: str, edits: tuple[tuple[str, str], ...], line: str, tmp_path: Path
) -> None:
    client = load(module(tmp_path, *edits))
    schedules = STREAM_SCHEDULES[next(row for row in STREAM_SCHEDULES if row.name == hook)]
    with pytest.raises(Violation) as caught:
        _check_all(schedules, client, tmp_path)
    assert caught.value.difference == f"while first event stands in {hook}: {line}"
    assert caught.value.program[-1].endswith(f"while con1 stands in {hook}")


def test_a_transaction_before_may_look(tmp_path: Path) -> None:
    client = load(
        module(tmp_path, ("    if fresh := _write", "    _write(con, lambda: False)\n    if fresh := _write"))
    )
    for hook, schedules in STREAM_SCHEDULES.items():
        if hook.name == stages.BEFORE_SECOND_BEGIN:
            assert _check_all(schedules, client, tmp_path / hook.op.__name__) > 0


def _check_all(schedules: Iterable[Schedule], client: Client, folder: Path) -> int:
    """How many of them came to where the operation is held."""
    folder.mkdir(exist_ok=True)
    return sum(
        check_schedule(schedule, Store(client, folder / f"{number}.db")) for number, schedule in enumerate(schedules)
    )
