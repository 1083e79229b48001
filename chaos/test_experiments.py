"""The harness itself: void rows, the matrix, the form of an order, and what a broken module makes of a process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, cast, get_args

import psutil
import pytest

from chaos import files, forks, killer
from chaos.deaths import dying_opening
from chaos.experiments import (
    EXPERIMENTS,
    IN_SEND,
    MATRIX,
    RUNS,
    SCENES,
    SPILLED,
    STATEMENTS,
    QueueExperiment,
    free_at,
)
from chaos.matrix import Experiment, Scene, Void, matrix, statements
from chaos.openings import OPENINGS, check_opening
from chaos.shelf import Shelf
from chaos.trial import Trial, check, look
from model import lease
from model.contract import (
    FAULT_HOOKS,
    WORKER,
    Blocked,
    Claim,
    Crash,
    Enqueue,
    Finish,
    Hook,
    Op,
    Plain,
    Redrive,
    Reopen,
    RunOnce,
    State,
    Ticket,
    parse,
)
from model.counterexample import Violation
from model.port import connect
from model.queue import Queue, load

SHIPPED = killer.ROOT / "worker.py"
FIRST_CLAIM = MATRIX[0]
TICKET = Ticket("a", 5, "w", 1, 1, 50)


# --- the matrix -------------------------------------------------------------------------------------------------------


def test_every_hook_of_the_table_has_experiments() -> None:
    assert {experiment.hook for experiment in MATRIX} == set(FAULT_HOOKS)


def test_every_scene_is_killed_in_every_hook() -> None:
    hooks = {scene.name: {row.hook for row in MATRIX if row.scene == scene.name} for scene in SCENES}
    assert hooks == {scene.name: {hook for hook in FAULT_HOOKS if hook.op is type(scene.op)} for scene in SCENES}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_no_experiment_is_void(experiment: Experiment) -> None:
    lost, kept = experiment.outcomes()
    assert lost != kept


def test_every_operation_is_killed_at_every_statement() -> None:
    stages = {(type(row.op), row.hook.name) for row in STATEMENTS}
    assert stages == {(op, stage.name) for op in get_args(Plain) for stage in statements(op)}


def test_an_opening_that_makes_nothing_is_refused(tmp_path: Path, did: Counter[str]) -> None:
    whole = replace(OPENINGS[0], spoilt=("DELETE FROM jobs",))
    with pytest.raises(Void, match="opening of a new file, killed in before-second-create: nothing is missing"):
        check_opening(whole, Queue(load(SHIPPED), tmp_path / "queue.db"), SHIPPED, did)
    assert not did


def test_a_hook_without_an_experiment_is_refused() -> None:
    with pytest.raises(Void, match="after-enqueue of Enqueue: the hook is listed, but no experiment reaches it"):
        matrix(QueueExperiment, [*FAULT_HOOKS, Hook("after-enqueue", Enqueue, kept=False)], SCENES)


def test_a_hook_that_never_fires_is_refused() -> None:
    (row, *_) = matrix(QueueExperiment, [Hook("after-lunch", Claim, kept=False)], SCENES)
    with pytest.raises(Void, match="first claim, killed in after-lunch: the hook is listed, but never fired"):
        row.outcomes()


def test_a_claim_that_only_buries_is_refused() -> None:
    (row, *_) = matrix(QueueExperiment, FAULT_HOOKS[:1], [Scene("burial", (Enqueue("a", 5, 0, 10),), Claim("w", 10))])
    with pytest.raises(Void, match="burial, killed in after-claim: the hook is listed, but never fired"):
        row.outcomes()


@pytest.mark.parametrize("hook", FAULT_HOOKS[:2], ids=lambda hook: hook.name)
def test_an_experiment_that_changes_nothing_is_refused(hook: Hook, tmp_path: Path, did: Counter[str]) -> None:
    void = replace(FIRST_CLAIM, setup=(), hook=hook)
    with pytest.raises(Void, match="lost and kept are the same state"):
        check(void, Queue(load(SHIPPED), tmp_path / "queue.db"), SHIPPED, did)
    assert not did


def test_a_void_row_is_no_violation() -> None:
    assert not issubclass(Void, Violation)
    assert not issubclass(killer.Unanswered, Violation)


def test_the_last_lease_decides_when_all_are_free() -> None:
    state = State()
    for op in (Enqueue("a", 5, 0, 900), Enqueue("b", 5, 70, 900), Claim("w", 0, 50)):
        state, _ = lease.step(state, op)
    assert free_at(state, 0) == 70
    assert free_at(state, 80) == 80


# --- the form of an order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        Enqueue("a", 5, 0, 50_000),
        Claim("w", 10**15),
        Finish(TICKET, "retry", 5, 20),
        Redrive("a", 2, 50_000, "it's"),
        RunOnce("w", 0, 5, jitter=0.1, meanwhile=(Claim("x", -1), Finish(TICKET, "ok", 5))),
        Crash(Claim("w", 0), "after-claim", "SIGKILL"),
        Blocked(Claim("w", 0)),
        Reopen(),
    ],
    ids=lambda op: type(op).__name__,
)
def test_an_operation_is_read_back_from_its_repr(op: Op) -> None:
    assert parse(repr(op)) == op


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "Claim",
        "Claim(",
        "Claim()",
        "Claim('w', 0, 1, 2)",
        "Claim(owner='w', now_ms=0, why=1)",
        "Claim(**{'owner': 'w', 'now_ms': 0})",
        "Claim(*('w', 0))",
        "Claim('w', now())",
        "Claim('w', __import__('os').getpid())",
        "contract.Claim('w', 0)",
        "(Claim('w', 0),)",
        repr(TICKET),
        "(" * 10_000,
    ],
)
def test_other_text_is_no_operation(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not an operation: "):
        parse(text)


# --- what a broken module makes of a process --------------------------------------------------------------------------


def _module(folder: Path, override: str) -> Path:
    """The shipped module with something after it."""
    path = folder / "wrong.py"
    path.write_text(f"{SHIPPED.read_text()}\nimport subprocess, sys\n{override}\n")
    return path


def _with_claim(folder: Path, body: str) -> Path:
    signature = "con, owner, now_ms, lease_ms=1000, fault=None, right=claim"
    return _module(folder, f"def claim({signature}):\n    {body}")


@pytest.fixture
def left_over() -> Callable[[], set[psutil.Process]]:
    """The processes that this test has started and that still run; other checks of this process may have some too."""
    before = _children()
    return lambda: _children() - before


def _children() -> set[psutil.Process]:
    return {
        child
        for child in psutil.Process().children(recursive=True)
        if {"chaos.child", "chaos.forkserver"} & set(child.cmdline())
    }


WRONG = {
    "passes no fault on": (
        "return right(con, owner, now_ms, lease_ms)",
        Violation,
        f"on the way to after-claim (first claim): worker.claim returns {asdict(TICKET)}, never called after-claim",
    ),
    "raises": (
        "raise RuntimeError('no')",
        Violation,
        "on the way to after-claim (first claim): worker.claim raises RuntimeError: no, never called after-claim",
    ),
    "exits": (
        "raise SystemExit(3)",
        Violation,
        "on the way to after-claim (first claim): worker.claim raises SystemExit: 3, never called after-claim",
    ),
    "calls another hook first": (
        "fault('early'); return right(con, owner, now_ms, lease_ms, fault)",
        Violation,
        "on the way to after-claim (first claim): worker.claim calls early, after-claim, must call after-claim",
    ),
    "ends its process": (
        "print('bye', flush=True); os._exit(3)",
        killer.Unanswered,
        "the process ended before its hook, with status 3: bye",
    ),
    "interrupts itself": (
        "raise KeyboardInterrupt",
        killer.Unanswered,
        "the process ended before its hook, with status -2: KeyboardInterrupt",
    ),
    "never returns": (
        "while True: pass",
        killer.Unanswered,
        "the process has not reached its hook after 1 s",
    ),
}


@pytest.mark.parametrize("fork", [False, True], ids=["fresh", "forked"])
@pytest.mark.parametrize(("body", "error", "line"), WRONG.values(), ids=WRONG)
def test_a_claim_that_does_otherwise_is_reported(
    body: str,
    error: type[Exception],
    line: str,
    fork: bool,  # noqa: FBT001 - pytest passes it by name
    tmp_path: Path,
    did: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    left_over: Callable[[], set[psutil.Process]],
) -> None:
    module = _with_claim(tmp_path, body)
    with _maybe_serving(module, fork=fork) as server:
        if line.endswith("1 s"):
            monkeypatch.setattr(killer, "PATIENCE_S", 1)
        with pytest.raises(error) as caught:
            check(FIRST_CLAIM, Queue(load(module), tmp_path / "queue.db"), module, did, server)
    said = str(caught.value).splitlines()[0]
    assert said == (line.replace("status -2", "status 1") if fork else line)  # a fork is not the interpreter's end
    assert not did
    assert not left_over()


@contextlib.contextmanager
def _maybe_serving(module: Path, *, fork: bool) -> Iterator[forks.Server | None]:
    if not fork:
        yield None
        return
    with forks.serving(WORKER, module) as server:
        yield server


@pytest.mark.parametrize("fork", [False, True], ids=["fresh", "forked"])
def test_a_process_that_leaves_others_is_no_answer(
    fork: bool,  # noqa: FBT001 - pytest passes it by name
    tmp_path: Path,
    did: Counter[str],
    left_over: Callable[[], set[psutil.Process]],
) -> None:
    sleeper = "subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    module = _with_claim(tmp_path, f"{sleeper}; return right(con, owner, now_ms, lease_ms, fault)")
    with (
        _maybe_serving(module, fork=fork) as server,
        pytest.raises(killer.Unanswered, match=r"the process had started (1|some) other processes"),
    ):
        check(FIRST_CLAIM, Queue(load(module), tmp_path / "queue.db"), module, did, server)
    assert not left_over()


def test_a_module_that_opens_once_only_is_reported(tmp_path: Path, did: Counter[str]) -> None:
    again = (
        "def open_queue(path, right=open_queue):\n    assert not os.path.exists(path), 'again'\n    return right(path)"
    )
    module = _module(tmp_path, again)
    with pytest.raises(Violation, match=r"worker.open_queue raises AssertionError: again, in another process"):
        check(FIRST_CLAIM, Queue(load(module), tmp_path / "queue.db"), module, did)


def test_a_tight_transaction_leaves_a_hot_journal(tmp_path: Path, did: Counter[str]) -> None:
    check(SPILLED, Queue(load(SHIPPED), tmp_path / "queue.db"), SHIPPED, did)
    assert did == {"processes killed": 1, "lost": 1, "journals rolled back": 1}


WRITES_AFTER_COMMIT = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    def late(hook):
        if hook == "after-commit":
            con.execute("UPDATE jobs SET reason = 'late'")
        fault(hook)
    return right(con, owner, now_ms, lease_ms, fault and late)
"""


def test_the_same_bytes_are_asked_everything_once(tmp_path: Path, did: Counter[str]) -> None:
    queue, shelf, sounds = Queue(load(SHIPPED), tmp_path / "queue.db"), Shelf(), []
    for stage in ("commit-done", "after-commit", "before-begin", "after-claim"):
        check(_first_claim(stage), queue, SHIPPED, did, None, shelf)
        sounds.append([len(left) for _, left in shelf.sound])
    assert sounds == [[1], [1], [1, 1], [1, 1, 2]]  # files: a journal is one, too
    queue.path.unlink()
    check(_run("first enqueue", "commit-done"), queue, SHIPPED, did, None, shelf)
    assert len(shelf.sound) == 1


def test_other_bytes_are_asked_everything(tmp_path: Path, did: Counter[str]) -> None:
    module, shelf = _module(tmp_path, WRITES_AFTER_COMMIT), Shelf()
    queue = Queue(load(module), tmp_path / "queue.db")
    check(_first_claim("commit-done"), queue, module, did, None, shelf)
    with pytest.raises(Violation, match=r"after SIGKILL in after-commit .*: jobs row 'a': reason is 'late'"):
        check(_first_claim("after-commit"), queue, module, did, None, shelf)


def _first_claim(stage: str) -> Experiment:
    return next(row for row in (*MATRIX, *STATEMENTS) if row.scene == "first claim" and row.hook.name == stage)


COMMITS_EARLY = """
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    return right(con, owner, now_ms, lease_ms, fault and (lambda hook: (con.execute("COMMIT"), fault(hook))))
"""
DELETES_THE_JOURNAL = """
def open_queue(path, right=open_queue):
    with contextlib.suppress(OSError):
        os.unlink(str(path) + "-journal")
    return right(path)
"""


HALF = "con.execute(\"UPDATE jobs SET reason = 'half'\")"
FILLS_IN_LATER = """
def enqueue(con, event, now_ms, ttl_ms, max_attempts=3, right=enqueue):
    new = right(con, {**event, "qty": 1}, now_ms, ttl_ms, max_attempts)
    con.execute("UPDATE jobs SET qty = ?", (event["qty"],))
    return new
"""
WRITES_BEFORE_CLAIM = f"""
def claim(con, owner, now_ms, lease_ms=1000, fault=None, right=claim):
    {HALF}
    return right(con, owner, now_ms, lease_ms, fault)
"""
WRITES_AFTER_SEND = f"""
def run_once(con, owner, clock, send, jitter, lease_ms=1000, right=run_once):
    def sends(event):
        answer = send(event)
        {HALF}
        return answer
    return right(con, owner, clock, sends, jitter, lease_ms)
"""
WRITES_BEFORE_SEND = f"""
def run_once(con, owner, clock, send, jitter, lease_ms=1000, right=run_once):
    return right(con, owner, clock, lambda event: ({HALF}, send(event))[1], jitter, lease_ms)
"""


def _run(scene: str, stage: str) -> Experiment:
    return next(row for row in (*RUNS, *STATEMENTS) if row.scene == scene and row.hook.name == stage)


SHOWN = {
    "commits early": (FIRST_CLAIM, COMMITS_EARLY),
    "deletes the journal": (SPILLED, DELETES_THE_JOURNAL),
    "fills in later": (_run("first enqueue", "commit-done"), FILLS_IN_LATER),
    "writes before its begin": (_run("first claim", "before-begin"), WRITES_BEFORE_CLAIM),
    "writes before its first change": (_run("first claim", "after-write"), WRITES_BEFORE_CLAIM),
    "writes before its commit": (_run("first claim", "before-commit"), WRITES_BEFORE_CLAIM),
    "writes before its claim": (_run("run_once in its claim", "before-commit"), WRITES_BEFORE_CLAIM),
    "writes before its send": (IN_SEND, WRITES_BEFORE_SEND),
    "writes after its send": (_run("run_once that has an ok", "second-clock"), WRITES_AFTER_SEND),
    "writes before its finish": (_run("run_once that has a retry", "before-commit"), WRITES_BEFORE_SEND),
}


@pytest.mark.parametrize(("experiment", "override"), SHOWN.values(), ids=SHOWN)
def test_the_program_of_a_violation_shows_it_again(
    experiment: Experiment, override: str, tmp_path: Path, did: Counter[str]
) -> None:
    module = _module(tmp_path, override)
    with pytest.raises(Violation) as caught:
        check(experiment, Queue(load(module), tmp_path / "judged.db"), module, did)
    text = "\n".join(caught.value.program).replace("import worker", "import wrong as worker", 1)
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True)  # noqa: S603 - the program is ours
    judged, seen = (look(Queue(load(SHIPPED), tmp_path / name)) for name in ("judged.db", "queue.db"))
    assert _want(experiment) != judged == seen


def _want(experiment: Experiment) -> State:
    lost, kept = experiment.outcomes()
    return cast("State", kept if experiment.hook.kept else lost)


TABLES_APART = """
def _create_tables(con, tables, right=_create_tables):
    for table in tables:
        right(con, [table])
        con.execute("COMMIT")
        con.execute("BEGIN IMMEDIATE")
"""


def test_the_program_of_an_opening_shows_it_again(tmp_path: Path, did: Counter[str]) -> None:
    module = _module(tmp_path, TABLES_APART)
    wrong = []
    for experiment in OPENINGS[:5]:
        folder = tmp_path / experiment.stage
        folder.mkdir()
        with contextlib.suppress(Violation):
            check_opening(experiment, Queue(load(module), folder / "judged.db"), module, did)
            continue
        wrong.append(experiment.stage)
        text = "\n".join(dying_opening(WORKER, experiment.spoilt, experiment.stage))
        command = [sys.executable, "-c", text.replace("import worker", "import wrong as worker")]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})  # noqa: S603
        schema = files.look(Queue(load(module), folder / "queue.db"), folder / "queue.db").schema
        assert "TABLE jobs" in schema
        assert "TABLE redrives" not in schema
    assert wrong == ["commit-done"]


def test_an_opener_may_try_a_connection_first(tmp_path: Path, did: Counter[str]) -> None:
    twice = "def open_queue(path, right=open_queue):\n    right(path).close()\n    return right(path)"
    probing = "def open_queue(path, right=open_queue):\n    sqlite3.connect(path).close()\n    return right(path)"
    for number, override in enumerate((twice, probing)):
        module = _module(tmp_path, override)
        for experiment in OPENINGS:
            path = tmp_path / f"{number}{experiment.name}.db"
            check_opening(experiment, Queue(load(module), path), module, did)


# --- the fork server --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("CON = sqlite3.connect(':memory:')", "the module opens an SQLite connection when it is imported (1 of them)"),
        (
            "sqlite3.connect(':memory:').close()",
            "the module opens an SQLite connection when it is imported (1 of them)",
        ),
        (
            "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "the module starts a thread when it is imported (1 of them)",
        ),
    ],
    ids=["keeps a connection", "has had a connection", "starts a thread"],
)
def test_what_must_not_be_forked_is_not(override: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(forks.Unsafe) as caught, forks.serving(WORKER, _module(tmp_path, override)):
        pass
    assert str(caught.value) == line


def test_a_server_that_ends_is_no_answer(tmp_path: Path) -> None:
    with (
        pytest.raises(killer.Unanswered, match="ended before its hook, with status 3"),
        forks.serving(WORKER, _module(tmp_path, "os._exit(3)")),
    ):
        pass


def test_a_server_and_its_fork_end_with_their_killer(
    tmp_path: Path, did: Counter[str], left_over: Callable[[], set[psutil.Process]]
) -> None:
    queue = Queue(load(SHIPPED), tmp_path / "queue.db")
    with forks.serving(WORKER, SHIPPED) as server:
        check(FIRST_CLAIM, queue, SHIPPED, did, server)
        queue.path.unlink()
        Trial(FIRST_CLAIM, queue).prepare(FIRST_CLAIM.outcomes()[0])
        with forks.forked(server, FIRST_CLAIM, queue, SHIPPED) as child:
            assert killer.hear(child).what == "stands"
            both = [psutil.Process(child.pid), psutil.Process(server.process.pid)]
            assert both[0].parent() == both[1]
            cast("IO[bytes]", server.process.process.stdin).close()
            assert child.status() == 1
            assert server.process.status() == 0
    assert not left_over()


def _serves(server: forks.Server, module: Path, path: Path) -> None:
    """It still does: a process is forked that keeps its change."""
    did = Counter[str]()
    path.unlink(missing_ok=True)
    check(_run("first enqueue", "commit-done"), Queue(load(module), path), module, did, server)
    assert did == {"processes killed": 1, "kept": 1, "forked": 1}


@pytest.mark.parametrize("hangs", [False, True], ids=["stands", "hangs"])
def test_a_fork_that_nobody_hears_is_ended(
    hangs: bool,  # noqa: FBT001 - pytest passes it by name
    tmp_path: Path,
    left_over: Callable[[], set[psutil.Process]],
) -> None:
    module = _with_claim(
        tmp_path, f"while fault and {hangs}: pass\n    return right(con, owner, now_ms, lease_ms, fault)"
    )
    queue = Queue(load(module), tmp_path / "queue.db")
    with forks.serving(WORKER, module) as server:
        for _ in range(3):
            Trial(FIRST_CLAIM, queue).prepare(FIRST_CLAIM.outcomes()[0])
            with forks.forked(server, FIRST_CLAIM, queue, module) as child:
                pass
            assert child.died == -signal.SIGKILL
            assert psutil.Process(server.process.pid).children() == []
            queue.path.unlink()
        _serves(server, module, queue.path)
    assert not left_over()


def test_a_module_that_forks_again_and_again_is_no_answer(
    tmp_path: Path, did: Counter[str], left_over: Callable[[], set[psutil.Process]]
) -> None:
    module = _with_claim(
        tmp_path,
        "return right(con, owner, now_ms, lease_ms, fault and (lambda hook: (os.fork(), os.fork(), fault(hook))))",
    )
    queue = Queue(load(module), tmp_path / "queue.db")
    with forks.serving(WORKER, module) as server:
        for _ in range(3):  # all four say that they stand, whenever they come to it
            with pytest.raises(killer.Unanswered, match=r"the process had started (some|[0-9]) other processes"):
                check(FIRST_CLAIM, queue, module, did, server)
            assert psutil.Process(server.process.pid).children(recursive=True) == []
            queue.path.unlink()
        _serves(server, module, queue.path)
    assert not did
    assert not left_over()


def test_nothing_survives_in_a_session_of_its_own(tmp_path: Path, did: Counter[str]) -> None:
    sleeper = "pid = subprocess.Popen(['sleep', '100'], start_new_session=True).pid"
    told = tmp_path / "pid"
    module = _with_claim(
        tmp_path,
        f"{sleeper}; open({str(told)!r}, 'w').write(str(pid)); return right(con, owner, now_ms, lease_ms, fault)",
    )
    queue = Queue(load(module), tmp_path / "queue.db")
    with (
        forks.serving(WORKER, module) as server,
        pytest.raises(killer.Unanswered, match="the process had started 1 other processes"),
    ):
        check(FIRST_CLAIM, queue, module, did, server)
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(int(told.read_text())).wait(5) is None


def test_a_look_sees_who_holds_the_write_lock(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    queue = Queue(load(SHIPPED), path)
    with contextlib.closing(queue.open()) as con:
        con.execute("BEGIN IMMEDIATE").close()
        assert look(queue) == State()
        assert look(queue, writing=True) == "another connection cannot write: database is locked"


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    path.write_text("a" * 4096)
    assert look(Queue(load(SHIPPED), path), whole=True) == "another connection cannot read: file is not a database"


def test_a_process_does_not_outlive_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    parent = f"""
import sys
from pathlib import Path
from typing import IO, cast, get_args
from chaos.experiments import MATRIX
from chaos.killer import hear, started
from model.port import connect
from model.queue import Queue, load
module, path = Path({str(SHIPPED)!r}), Path({str(path)!r})
queue = Queue(load(module), path)
con = queue.worker.open_queue(path)
queue.worker.enqueue(con, {{"id": "a", "qty": 5}}, 0, 50_000)
with started(MATRIX[0], queue, module) as child:
    assert hear(child).what == "stands"
    print(child.process.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", parent], cwd=killer.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            child = psutil.Process(int(cast("IO[str]", process.stdout).readline()))
        finally:
            psutil.Process(process.pid).kill()
    with contextlib.closing(connect(path)) as con:
        con.execute("PRAGMA busy_timeout = 20000").close()
        con.execute("BEGIN IMMEDIATE").close()  # which the process stood in the way of
    _, alive = psutil.wait_procs([child], timeout=5)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
