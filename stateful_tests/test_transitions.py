"""The layer "transitions": every transition of a finite world, compared with the model one by one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from model import lease, steps
from model.counterexample import Violation
from model.diagram import Edge, of_events, of_jobs
from model.queue import Queue, Worker, load
from model.store import Client, Store
from stateful_tests.options import Profile
from stateful_tests.position import BadPosition, Position
from stateful_tests.replay import (
    Covered,
    Judged,
    Transition,
    Unshown,
    nothing_of,
    replay,
    share,
    transitions,
    world_of,
)
from stateful_tests.test_gate import REMEMBERS
from stateful_tests.verdict import LAYERS, Check, judge

NOTE_EVERY = 1000


@pytest.mark.layer("transitions")
def test_every_transition_agrees_with_the_model(
    worker: Worker,
    tmp_path: Path,
    did: Counter[str],
    covered: Covered,
    profile: Profile,
    shard: int,
    states_done: Callable[[int], None],
    position: Position,
    edges: Counter[Edge],
) -> None:
    progress = Progress(did, covered, states_done, position, lambda step: edges.update(of_jobs(step)))
    check(partial(Queue, worker), tmp_path, profile.scopes, shard, profile.shards, progress)


@pytest.mark.layer("transitions")
def test_every_transition_of_the_stream_agrees_with_the_model(
    client: Client,
    tmp_path: Path,
    did: Counter[str],
    covered: Covered,
    profile: Profile,
    shard: int,
    states_done: Callable[[int], None],
    position: Position,
    edges: Counter[Edge],
) -> None:
    progress = Progress(did, covered, states_done, position, lambda step: edges.update(of_events(step)))
    check(partial(Store, client), tmp_path, profile.stream_scopes, shard, profile.shards, progress)


class Progress(NamedTuple):
    """Where a check says how far it is."""

    did: Counter[str]
    covered: Covered
    states_done: Callable[[int], None]
    position: Position
    walked: Callable[[Transition], object]


def check(judged: Judged, folder: Path, scopes: tuple[str, ...], shard: int, shards: int, progress: Progress) -> None:
    """One shard of all transitions of these worlds; or of one state, where a token leads to one."""
    wanted, _, state = progress.position.wanted.rpartition("/")
    if wanted and wanted not in scopes:
        raise BadPosition(f"{progress.position.wanted!r} is no state of this check")
    worlds, did = {name: world_of(name) for name in scopes if wanted in ("", name)}, progress.did
    progress.covered.update(nothing_of(worlds.values()))
    for name, world in worlds.items():
        numbers = _arriving(name, share(world, shard, shards), state, progress.position)
        for _ in replay(judged, folder, world, numbers, progress.covered, progress.walked):
            did["states"] += 1
            if did["states"] % NOTE_EVERY == 0:
                progress.states_done(did["states"])


def _arriving(name: str, numbers: range, wanted: str, position: Position) -> Iterator[int]:
    """Those of these states that are wanted, each noted as the position when its turn comes."""
    if wanted and not (wanted.isdecimal() and int(wanted) in numbers):
        raise BadPosition(f"{position.wanted!r} is no state of this check")
    for number in [int(wanted)] if wanted else numbers:
        position.reached = f"{name}/{number}"
        steps.program(f"# state {number} of the world {name}: each operation by itself")
        yield number


# --- the laws of the replay itself ------------------------------------------------------------------------------------

SHIPPED = Path(__file__).parent.parent / "worker.py"


def edited(folder: Path, *edits: tuple[str, str]) -> Worker:
    """A copy of the shipped worker with these edits, in ``folder`` and under its own name."""
    text = SHIPPED.read_text()
    for old, new in edits:
        assert text.count(old) == 1, f"the edit no longer applies: {old}"
        text = text.replace(old, new)
    (folder / "worker.py").write_text(text)
    return load(folder / "worker.py")


def replay_all(worker: Worker, folder: Path, name: str = "one", left_out: int = -1) -> Covered:
    """What was covered of this scope by one shard that leaves out one state."""
    world = world_of(name)
    covered = nothing_of([world])
    numbers = (number for number in share(world, 0, 1) if number != left_out)
    for _ in replay(partial(Queue, worker), folder, world, numbers, covered):
        pass
    return covered


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 500])
def test_shards_take_each_state_once(shards: int) -> None:
    world = world_of("one")
    numbers = [number for shard in range(shards) for number in share(world, shard, shards)]
    assert sorted(numbers) == list(range(len(world.states)))


@pytest.mark.parametrize("name", ["one", "rescue"])
def test_every_operation_lies_within_its_bounds(name: str) -> None:
    world = world_of(name)
    for number in share(world, 0, 1):
        for step in transitions(world, number):
            assert lease.step(step.before, step.op) == (step.after, step.reply)


def test_a_state_left_out_is_never_valid(tmp_path: Path) -> None:
    whole, part = (replay_all(load(SHIPPED), tmp_path, left_out=number) for number in (-1, 7))
    others = [Check(layer, "worker", layer, "valid", 0) for layer in LAYERS if layer != "transitions"]
    words = {}
    for name, covered in (("whole", whole), ("part", part)):
        words[name] = judge([*others, Check("t", "worker", "transitions", "valid", 0, covered=covered)], ["worker"])
    assert (words["whole"].word, words["part"].word) == ("valid", "unknown")
    assert any(
        re.fullmatch(r"worker: transitions: claim 1,\d+ of 1,\d+ replayed", line) for line in words["part"].unanswered
    )


ROW = (
    "#   jobs: seq 1, id 'a', qty 5, status 'pending', attempts 0, max_attempts 1, token 0, available_at 999, "
    "deadline 1003"
)


def test_a_failing_program_can_be_pasted(tmp_path: Path) -> None:
    uncapped = edited(tmp_path, ("min(now_ms + lease_ms, deadline)", "now_ms + lease_ms"))
    with pytest.raises(Violation) as failed:
        replay_all(uncapped, tmp_path)
    assert re.search(r"returns \{.*'lease_until': 1004\}, must return \{.*'lease_until': 1003\}", str(failed.value))
    title, row, *before, last = failed.value.program
    assert (title, row) == ("# rows before:", ROW)
    call, _, reply = last.partition("  # ")
    script = "\n".join([*before, f"print({call.partition(' = ')[2]})"])
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == reply.strip()


LEFT = {
    "a half-read cursor": (
        """\
    ticket = _write(con, lease, fault)
    claim.kept = con.execute("SELECT 1 FROM jobs UNION ALL VALUES (2)")
    claim.kept.fetchone()
    return ticket""",
        "leaves the file so that another connection cannot write: database is locked",
    ),
    "a transaction": (
        "    return _write(con, lease, fault) or con.execute('BEGIN') and None",
        "leaves a transaction open on its connection",
    ),
    "a closed connection": (
        "    return (_write(con, lease, fault), con.close())[0]",
        "closes the connection that it was lent",
    ),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_behind_is_a_violation(tmp_path: Path, what: str) -> None:
    claim, says = LEFT[what]
    with pytest.raises(Violation, match=says):
        replay_all(edited(tmp_path, ("    return _write(con, lease, fault)", claim)), tmp_path)


def test_a_memory_beside_the_file_is_no_violation(tmp_path: Path) -> None:
    """A known id stays known, so a module may remember it; only the replay goes back in time."""
    remembers = edited(tmp_path, ("    return _write(con, insert)", REMEMBERS))
    with pytest.raises(Unshown, match="returns False, must return True; but"):
        replay_all(remembers, tmp_path)
