"""The storm: many workers at one queue, killed, stopped and sent wrong answers, until every job is done or dead.

The seed fixes what each process is to do and to suffer, and what the receiver answers; how the processes interleave is
the kernel's to choose. The clock is a file that only the harness moves. Who stops in a send sleeps, by SIGSTOP, until
its lease has passed and another process holds or has finished its job, where one ever does: what it does when it wakes
up comes too late. The history of all processes is judged in ``aftermath``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos import inbox
from chaos.aftermath import Aftermath, judge
from chaos.crew import heard
from chaos.inbox import Request
from chaos.killer import Unanswered, running, tell
from chaos.seats import seated
from chaos.stirrer import Stirrer, look
from chaos.timeline import Note, timeline
from chaos.weather import Weather, turns
from chaos.wire import encode
from model.counterexample import Violation
from model.history import notes, read
from model.queue import Queue

TURNS: Final = 1000
"""More requests than that are all treated well."""


Show = Callable[[dict[str, Any]], object]
"""Is given what a storm looked like, whatever is found in it."""


def check(
    weather: Weather, queue: Queue, module: Path, seed: int, did: Counter[str], show: Show = lambda _: None
) -> None:
    """One storm over ``queue``, a file to be made in an empty folder; a Violation if it leaves what it must not.

    Unanswered if the processes come to no end, and nothing is wrong up to there; or if too little has happened for it
    to show anything.
    """
    left, noted, seen = storm(weather, queue, module, seed)
    did.update(seen)
    wrong: Mapping[str, Any] | None = None
    try:
        judge(left)
    except Violation as violation:
        wrong = violation.story
        raise
    finally:
        show(timeline(left, noted, f"storm of seed {seed}", wrong))
    if left.problem:
        raise Unanswered(left.problem)
    if lacks := weather.lacks(seen):
        raise Unanswered(f"the storm is void: {lacks}")


def storm(weather: Weather, queue: Queue, module: Path, seed: int) -> tuple[Aftermath, tuple[Note, ...], Counter[str]]:
    """What it leaves, what was noted in it, and what happened, in figures."""
    folder, random, problem = queue.path.parent, Random(seed), ""  # noqa: S311 - no secret
    kept = folder / "inbox.db"
    with running("chaos.inbox") as receiver:
        _, port = heard(receiver, "port")
        tell(receiver, encode("script", str(kept), [asdict(turn) for turn in turns(random, TURNS)]))
        heard(receiver, "ready")
        with seated(module, folder, port) as seats:
            queue.worker.open_queue(queue.path).close()
            run = Stirrer(weather, queue.path, seats, random)
            try:
                run.until_calm()
            except Unanswered as reason:
                problem = str(reason)
        tell(receiver, encode("log"))
        requests = [Request(**fields) for fields in heard(receiver, "log")[1]]
    files = [file.read_text() for file in sorted(folder.glob("*.history"))]
    history = read(*files)
    run.did["operations"] = sum(call.reply is not None for call in history)
    run.did["resends"] = len(requests) - len({request.body for request in requests})
    return Aftermath(history, look(queue.path), inbox.read(kept), requests, problem), notes(*files), run.did
