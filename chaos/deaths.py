"""How a death reads: source that kills its process where an experiment did, with SQLite's and Python's own means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from chaos import stages
from chaos.child import SMALL_CACHE
from chaos.matrix import Experiment
from model import counterexample
from model.contract import Claim, Crash, Finish, Kind, RunOnce
from model.counterexample import source

SMALL_PAGES: Final = ("PRAGMA page_size = 512", "VACUUM")

_DUE: Final = {
    stages.BEFORE_BEGIN: "sql.startswith('BEGIN')",
    stages.AFTER_WRITE: "con.total_changes > n",
    stages.BEFORE_COMMIT: "sql.startswith('COMMIT')",
    stages.COMMIT_DONE: "con.total_changes > n and not con.in_transaction",
}

_DIE: Final = ["def die(): os.kill(os.getpid(), signal.SIGKILL)"]
_KILL_WHEN: Final = [
    "import sys",
    "def kill_when(con, due):",
    "    con.set_trace_callback(lambda sql: due(sql) and die())",
    "    sys.setprofile(lambda *_: due('') and die())",
]
_CLOCK: Final = [
    "def clock(*readings):",
    "    each = iter(readings)",
    "    def read():",
    "        now_ms = next(each)",
    "        return now_ms() if callable(now_ms) else now_ms",
    "    return read",
]
_RAISES: Final = ["def raises(error):", "    def send(event): raise error", "    return send"]
_KILL_AT: Final = "def kill_at(hook):"
_KILL_AT_LINES: Final = 4


def stand_in(experiment: Experiment) -> Crash[Any]:
    """The crash that stands for the death in a list of operations, until ``retold`` says it better."""
    return Crash(experiment.change, experiment.hook.name, "SIGKILL")


def retold(text: Sequence[str], experiment: Experiment) -> list[str]:
    """The program with the death where it was, if that was no fault hook, and on small pages if it was on such."""
    lines = list(text) if experiment.in_hook else list(_at_stage(text, experiment))
    return list(_tightened(lines)) if experiment.tight else lines


def _at_stage(text: Sequence[str], experiment: Experiment) -> Iterator[str]:
    death = _death(experiment)
    helpers = (
        _DIE + _KILL_WHEN * ("kill_when(" in death) + _CLOCK * ("clock(" in death) + _RAISES * ("raises(" in death)
    )
    skipped = 0
    for line in text:
        if line == _KILL_AT:
            yield from helpers
            skipped = _KILL_AT_LINES
        if skipped:
            skipped -= 1
        elif line.startswith("dies("):
            yield f"dies(lambda con: {death})  # {line.rpartition('  # ')[2]}"
        else:
            yield line


def _death(experiment: Experiment) -> str:
    op, stage = experiment.op, experiment.hook.name
    watched = f"kill_when(con, lambda sql, n=con.total_changes: {_DUE[stage]})" if stage in _DUE else ""
    if not isinstance(op, RunOnce):
        return f"{watched} or {source(op, 'con')}"
    call = source(op, "con").replace("sends(True)", "lambda event: True").replace("sends(", "raises(")
    first, second = str(op.first_ms), str(op.second_ms)
    if watched and experiment.hook.op is Claim:
        return f"{watched} or {call}"
    if watched and experiment.hook.op is Finish:
        second = f"lambda: {watched} or {op.second_ms}"
    if stage == stages.FIRST_CLOCK:
        first = "die"
    if stage in (stages.SEND, stages.ANSWERED, stages.SECOND_CLOCK):
        second = "die"  # nothing happens to the queue between the claim and here
    return call.replace(f"iter(({op.first_ms}, {op.second_ms})).__next__", f"clock({first}, {second})")


def _tightened(text: Sequence[str]) -> Iterator[str]:
    """Small pages from the death on, and a small cache for whoever dies."""
    for line in text:
        if line.startswith("dies("):
            yield from (f'con1.execute("{sql}")' for sql in SMALL_PAGES)
        yield line.replace("dies(lambda con: ", f'dies(lambda con: con.execute("{SMALL_CACHE}") and ')


_OPENING_DUE: Final = {
    stages.BEFORE_BEGIN: "seen[-1:] == ['BEGIN']",
    stages.BEFORE_CREATE: "seen[-1:] == ['CREATE']",
    stages.BEFORE_SECOND_CREATE: "seen.count('CREATE') == 2",
    stages.AFTER_WRITE: "cons and cons[0].total_changes and cons[0].in_transaction",
    stages.BEFORE_COMMIT: "seen[-1:] == ['COMMIT']",
    stages.COMMIT_DONE: "'COMMIT' in seen and not cons[0].in_transaction",
}


def dying_opening(kind: Kind, spoilt: Sequence[str], stage: str) -> list[str]:
    """A process is killed while it opens a new file, or one that was whole before ``spoilt`` was executed on it."""
    connect = f'sqlite3.connect("{kind.file}", isolation_level=None)'
    opening = counterexample.opening(kind)
    return [
        "import os, signal, sqlite3, sys",
        f"import {kind.name}",
        "new, cons, seen = [], [], []",
        "def check():",
        f"    if {_OPENING_DUE[stage]}: os.kill(os.getpid(), signal.SIGKILL)",
        "def trace(sql): seen.append(sql.split()[0].upper()); check()",
        "def profile(*_):",
        "    if new: cons.append(new.pop()); cons[0].set_trace_callback(trace)",
        "    check()",
        *([f"{opening}.close()"] if spoilt else ()),
        *(f"{connect}.execute({sql!r})" for sql in spoilt),
        "if os.fork() == 0:",
        "    sys.addaudithook(lambda event, args: event == 'sqlite3.connect/handle' and new.append(args[0]))",
        "    sys.setprofile(profile)",
        f"    {opening}",
        "os.wait()",
        f'print(*{connect}.iterdump(), sep="\\n")',
    ]
