"""How much slower a queue gets as jobs pile up: each operation on a small queue and on a large one, side by side.

``python -m stateful_tests.bench --help`` explains what is measured. It is a benchmark, not a test: a ratio over its
target is printed, and the exit status is 0 all the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from model.contract import Job
from model.port import Unfit, connect
from model.queue import Worker, load
from model.scratch import MEMORY
from stateful_tests.options import positive
from stateful_tests.rates import rates

NOW_MS: Final = 1000
FAR_MS: Final = 10**12
SHIPPED: Final = Path(__file__).resolve().parent.parent / "worker.py"
DISK: Final = Path(tempfile.gettempdir())

# --- what a queue holds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pile:
    """``count`` jobs alike, named ``kind-1``, ``kind-2`` and so on."""

    kind: str
    count: int


KINDS: Final[dict[str, dict[str, object]]] = {
    "finished": {"status": "done"},
    "ready": {"status": "pending"},
    "waiting": {"status": "pending", "available_at": FAR_MS},
    "expired": {"status": "leased", "attempts": 1, "token": 1, "owner": "gone", "lease_until": NOW_MS},
}
COMMON: Final[dict[str, object]] = {
    "qty": 1,
    "attempts": 0,
    "max_attempts": 3,
    "token": 0,
    "available_at": 0,
    "deadline": 2 * FAR_MS,
    "owner": None,
    "lease_until": None,
}

FILL: Final = """
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :count)
INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline, owner, lease_until)
SELECT :kind || '-' || n, :qty, :status, :attempts, :max_attempts, :token, :available_at, :deadline, :owner,
  :lease_until
FROM number"""


@dataclass(frozen=True, slots=True)
class Content:
    """The piles of one queue file, the oldest first; what is measured works on the first job of the last one."""

    piles: tuple[Pile, ...]
    indexes: bool = True


def content(*piles: tuple[int, str]) -> Content:
    """``content((1000, "finished"), (10, "ready"))``: what a file holds, as one says it."""
    return Content(tuple(Pile(kind, count) for count, kind in piles))


SMALL: Final = content((10, "ready"))
BARE: Final = Content(SMALL.piles, indexes=False)
# Not a round million: the first ready job stands last among the 512 neighbours that the shipped worker's index takes
# together, which is its worst place.
OLD: Final = content((1_000_446, "finished"), (10, "ready"))
IDLE: Final = content((1_000_446, "finished"), (1, "waiting"))

# --- what is measured -------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One operation on two queues; ``target`` is the ratio it should stay within, None where none is promised."""

    name: str
    op: str
    this: Content
    small: Content = SMALL
    target: float | None = 1.5


CASES: Final = (
    Case("claim, 1,000,000 finished before", "claim", OLD),
    Case("claim of nothing, 1,000,000 finished", "claim", IDLE, content((1, "waiting"))),
    Case("enqueue, 1,000,000 finished before", "enqueue", OLD),
    Case("finish, 1,000,000 finished before", "finish", OLD),
    Case("redrive, 1,000,000 finished before", "redrive", OLD),
    Case("claim, 100,000 ready", "claim", content((100_000, "ready"))),
    Case("claim, 100,000 expired leases", "claim", content((100_000, "expired"))),
    Case("claim, 1,000 not due before 1 ready", "claim", content((1000, "waiting"), (1, "ready")), target=None),
    Case("claim, 100,000 not due before 1 ready", "claim", content((100_000, "waiting"), (1, "ready")), target=None),
    Case(
        "claim, 100,000 not due before 1,000 ready",
        "claim",
        content((100_000, "waiting"), (1000, "ready")),
        target=None,
    ),
    Case("enqueue, with indexes against none", "enqueue", SMALL, BARE, 1.2),
    Case("claim, with indexes against none", "claim", SMALL, BARE, 1.2),
    Case("finish, with indexes against none", "finish", SMALL, BARE, 1.2),
)

# --- how it is measured -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queue:
    """A filled queue file: the worker works on ``con``; ``keeper`` sets the scene and clears it, untimed."""

    worker: Worker
    con: sqlite3.Connection
    keeper: sqlite3.Connection
    job_id: str
    due: bool


def claim(queue: Queue) -> Callable[[], object]:
    """A claim that finds the job, or nothing where it is not due."""
    return lambda: queue.worker.claim(queue.con, "w", NOW_MS)


def enqueue(queue: Queue) -> Callable[[], object]:
    """An enqueue of a job that is not there."""
    queue.keeper.execute("DELETE FROM jobs WHERE id = ?", (queue.job_id,))
    return lambda: queue.worker.enqueue(queue.con, {"id": queue.job_id, "qty": 1}, NOW_MS, 60_000)


def finish(queue: Queue) -> Callable[[], object]:
    """A finish with the ticket of a claim that is not timed."""
    ticket: Any = queue.worker.claim(queue.con, "w", NOW_MS)
    return lambda: queue.worker.finish(queue.con, ticket, "ok", NOW_MS + 1)


def redrive(queue: Queue) -> Callable[[], object]:
    """A redrive of a job that was made dead, untimed."""
    queue.keeper.execute("UPDATE jobs SET status = 'dead', reason = 'permanent' WHERE id = ?", (queue.job_id,))
    return lambda: queue.worker.redrive(queue.con, queue.job_id, NOW_MS, 60_000, "bench")


OPERATIONS: Final = {"claim": claim, "enqueue": enqueue, "finish": finish, "redrive": redrive}


class Void(Exception):
    """The worker did not do what is to be timed."""


def round_ns(queue: Queue, op: str) -> int:
    """Nanoseconds of one call; what it changed is put back, untimed, by another connection."""
    with row_put_back(queue):
        call = OPERATIONS[op](queue)
        start = time.perf_counter_ns()
        reply = call()
        taken = time.perf_counter_ns() - start
    if bool(reply) is not queue.due:
        raise Void(f"{op} returned {reply!r}: there is nothing to measure")
    return taken


@contextlib.contextmanager
def row_put_back(queue: Queue) -> Iterator[None]:
    """The job's row is afterwards what it was before, and there is no audit row."""
    before = queue.keeper.execute("SELECT * FROM jobs WHERE id = ?", (queue.job_id,)).fetchone()
    yield
    queue.keeper.execute("DELETE FROM redrives")
    marks = ", ".join("?" for _ in Job._fields)
    queue.keeper.execute(f"REPLACE INTO jobs ({', '.join(Job._fields)}) VALUES ({marks})", before)  # noqa: S608 - names


def queue_file(worker: Worker, path: Path, held: Content, stack: contextlib.ExitStack) -> Queue:
    """Make and fill the queue file at ``path``; ``stack`` closes it."""
    con = stack.enter_context(contextlib.closing(worker.open_queue(path)))
    keeper = stack.enter_context(contextlib.closing(connect(path)))
    if not held.indexes:
        drop_indexes(keeper)
    fill(keeper, held)
    last = held.piles[-1].kind
    return Queue(worker, con, keeper, f"{last}-1", due=last != "waiting")


def drop_indexes(con: sqlite3.Connection) -> None:
    """Every index that a statement made; those of the constraints stay."""
    for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL").fetchall():
        con.execute(f"DROP INDEX {name}")


def fill(con: sqlite3.Connection, held: Content) -> None:
    """Insert the piles, in one transaction."""
    con.execute("BEGIN")
    for pile in held.piles:
        con.execute(FILL, {**COMMON, **KINDS[pile.kind], "kind": pile.kind, "count": pile.count})
    con.execute("COMMIT")


class Measured(NamedTuple):
    """Medians, in nanoseconds."""

    case: Case
    small_ns: float
    this_ns: float

    @property
    def ratio(self) -> float:
        """How many times as long the call takes."""
        return self.this_ns / self.small_ns


def measure(case: Case, small: Queue, this: Queue, rounds: int) -> Measured:
    """Both queues take turns, and each goes first every other time; one round before that warms up."""
    taken: dict[str, list[int]] = {"small": [], "this": []}
    turns = [("small", small), ("this", this)]
    for number in range(rounds + 1):
        for side, queue in turns if number % 2 else reversed(turns):
            taken[side].append(round_ns(queue, case.op))
    return Measured(case, statistics.median(taken["small"][1:]), statistics.median(taken["this"][1:]))


# --- what is printed --------------------------------------------------------------------------------------------------

HEAD: Final = f"{'case':<42} {'small queue':>12} {'this':>12} {'ratio':>7} {'target':>7}"
NOTE: Final = """\
Jobs that are not due yet have no target. An index has one order, and the lowest seq among what is due needs two: the
shipped worker looks at 512 neighbours at once, so its claim still grows, by one look for every 512 of them."""


def line(row: Measured) -> str:
    """One line of the table."""
    target = row.case.target
    text = f"{row.case.name:<42} {us(row.small_ns)} {us(row.this_ns)} {row.ratio:>7.2f}"
    if target is None:
        return f"{text} {'-':>7}"
    return f"{text} {target:>7.2f}  {'ok' if row.ratio <= target else 'over'}"


def us(nanoseconds: float) -> str:
    """Microseconds, in a column of the table."""
    return f"{nanoseconds / 1000:>9,.0f} us"


def filesystem(folder: Path) -> str:
    """The kind of file system that ``folder`` lies on, as the kernel calls it."""
    with contextlib.suppress(OSError):
        mounts = [mount.split()[1:3] for mount in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        holding = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
        return max(holding)[1]
    return "unknown file system"


def progress(text: str) -> None:
    """One line that the next one replaces, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def report(worker: Worker, label: str, folder: Path, cases: Sequence[Case], rounds: int) -> None:
    """Measure every case in ``folder`` and print its table; the files are gone afterwards."""
    if not folder.is_dir():
        print(f"\n{label}: not measured, there is no folder {folder}")
        return
    print(f"\n{label}: {filesystem(folder)}, {folder}\n{HEAD}", flush=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-bench-", dir=folder)))
        contents = dict.fromkeys(held for case in cases for held in (case.small, case.this))
        queues: dict[Content, Queue] = {}
        for number, held in enumerate(contents, 1):
            progress(f"{label}: fills queue {number} of {len(contents)}")
            queues[held] = queue_file(worker, scratch / f"{number}.db", held, stack)
        for number, case in enumerate(cases, 1):
            progress(f"{label}: case {number} of {len(cases)}, {case.name}")
            row = measure(case, queues[case.small], queues[case.this], rounds)
            progress("")
            print(line(row), flush=True)


def report_rates(worker: Worker, folder: Path) -> None:
    """Print what the harness itself does in a second; the files are gone afterwards."""
    place = folder if folder.is_dir() else DISK
    print(f"\nthe harness, with its files in {place}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-", dir=place) as scratch:
        for row in rates(worker, Path(scratch)):
            print(row, flush=True)


# --- the command ------------------------------------------------------------------------------------------------------

ABOUT: Final = """\
Time single operations of a lease queue on a small queue of 10 jobs and on a large one, and print the ratio.

Both queues lie in the same folder and take turns, so that the ratio holds even where the machine is busy. Only the
call itself is timed, commit included; what it changed is put back by another connection, as another worker would
change the file. Medians over all rounds. A ratio over its target is marked "over"; the exit status stays 0."""

EXAMPLES: Final = """\
examples:
  python -m stateful_tests.bench                                the shipped worker, both folders
  python -m stateful_tests.bench --only claim --rounds 1000     steadier numbers for some of the cases
  python -m stateful_tests.bench --worker mine.py --disk /data  your worker, on the disk that it will use

On a disk nearly all the time is the commit, and ratios come out low; in memory the work itself shows."""


def parser() -> argparse.ArgumentParser:
    """The options, each with its default."""
    form = argparse.ArgumentParser(
        prog="python -m stateful_tests.bench",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("--rounds", type=positive, default=200, metavar="N", help="calls per queue and case (200)")
    form.add_argument("--only", default="", metavar="WORD", help="only the cases whose name contains WORD")
    form.add_argument("--worker", type=Path, default=SHIPPED, metavar="PATH", help="the file to load (worker.py)")
    form.add_argument("--disk", type=Path, default=DISK, metavar="DIR", help=f"a folder on a disk ({DISK})")
    form.add_argument(
        "--memory", type=Path, default=MEMORY, metavar="DIR", help=f"a folder in memory, where there is one ({MEMORY})"
    )
    return form


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 if the worker refuses, 2 for a wrong option, 130 after Ctrl-C; no file is left."""
    form = parser()
    options = form.parse_args(argv)
    cases = [case for case in CASES if options.only in case.name]
    if not cases:
        form.error(f"no case contains {options.only!r}; there are:\n  " + "\n  ".join(case.name for case in CASES))
    try:
        worker = load(options.worker)
    except Unfit as error:
        form.error(str(error))
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    print(f"{os.path.relpath(options.worker)}, {versions}, medians of {options.rounds} calls")
    try:
        report(worker, "disk", options.disk, cases, options.rounds)
        report(worker, "memory", options.memory, cases, options.rounds)
        if not options.only:
            report_rates(worker, options.memory)
    except Void as error:
        progress("")
        print(f"{options.worker}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress("")
        print("interrupted", file=sys.stderr)
        return 130
    if any(case.target is None for case in cases):
        print(f"\n{NOTE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
