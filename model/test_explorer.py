"""The search is whole, its paths are shortest, and its reduction hides nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model import lease
from model.contract import Op, Redrive, Reply, State
from model.counterexample import differences
from model.explorer import Broken, Invariant, Law, Scope, Sometimes, explore
from model.invariants import INVARIANTS, LAWS
from model.scopes import Domains, scope

LIMIT = 20


def counter(limit: int = LIMIT) -> Scope[int, int, str]:
    """Numbers up to a limit; one may add 1 or 3, or stay."""
    return Scope("counter", 0, lambda n, by: (n + by, "odd" if by % 2 else "stay"), lambda n: _steps(n, limit))


def _steps(n: int, limit: int) -> list[int]:
    return [by for by in (0, 1, 3) if n + by <= limit]


def test_every_state_and_transition_is_found() -> None:
    world = explore(counter())
    assert sorted(world.states) == list(range(LIMIT + 1))
    assert world.transitions.total() == sum(len(_steps(n, LIMIT)) for n in range(LIMIT + 1))


def test_a_path_is_shortest_and_whole() -> None:
    world = explore(counter())
    path = world.path(world.states.index(8))
    assert [step.op for step in path] == [1, 1, 3, 3]
    assert [step.after for step in path] == [1, 2, 5, 8]


def test_a_broken_invariant_is_found_at_its_nearest() -> None:
    with pytest.raises(Broken) as broken:
        explore(counter(), [Invariant("below seven", "", lambda n: n < 7)])
    assert broken.value.name == "below seven"
    assert len(broken.value.path) == 3
    assert broken.value.path[-1].after == 7


def test_a_broken_law_is_found_at_its_nearest() -> None:
    def never_from_six(before: int, by: int, _after: int, _reply: str) -> bool:
        return (before, by) != (6, 3)

    with pytest.raises(Broken) as broken:
        explore(counter(), laws=[Law("never from six", "", never_from_six)])
    assert [(step.before, step.op) for step in broken.value.path] == [(0, 3), (3, 3), (6, 3)]


def test_the_first_state_counts_too() -> None:
    never_zero: Invariant[int] = Invariant("never zero", "", lambda n: n != 0)
    with pytest.raises(Broken) as broken:
        explore(counter(), [never_zero])
    assert broken.value.path == []


def test_sometimes_keeps_the_shortest_witness() -> None:
    def arrives(number: int) -> Sometimes[int, int, str]:
        return Sometimes(f"at {number}", lambda _before, _by, after, _reply: after == number)

    world = explore(counter(), sometimes=[arrives(6), arrives(99)])
    assert {name: len(path) for name, path in world.witnesses.items()} == {"at 6": 2}


def test_progress_tells_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.explorer.REPORT_EVERY", 10)
    told: list[tuple[int, int]] = []
    explore(counter(), progress=lambda _world, done, transitions: told.append((done, transitions)))
    assert told == sorted(told)
    assert len(told) >= 4
    assert all(transitions >= 10 * number for number, (_, transitions) in enumerate(told, 1))


# --- symmetry ---------------------------------------------------------------------------------------------------------

SMALL = Domains(jobs=2, owners=("v", "w"), budgets=(1,), ttls=(2,), leases=(1,), redrives=0)
SINGLE = Domains(jobs=1, owners=("v", "w"), budgets=(1, 2), ttls=(2,), leases=(1,), redrives=1)


@pytest.mark.parametrize("domains", [SMALL, SINGLE])
def test_the_reduced_world_is_the_full_one_up_to_names_and_time(domains: Domains) -> None:
    full, reduced = explore(scope("full", replace(domains, reduced=False))), explore(scope("reduced", domains))
    canonical = reduced.scope.canonical
    assert {canonical(_named_by_seq(state)) for state in full.states} == set(reduced.states)
    assert len(full.states) > 2 * len(reduced.states)


def _named_by_seq(state: State) -> State:
    """Names for jobs in the order in which they came."""
    names = {job.id: "abcdefgh"[number] for number, job in enumerate(state.jobs)}
    return State(
        tuple(job._replace(id=names[job.id]) for job in state.jobs),
        tuple(audit._replace(id=names[audit.id]) for audit in state.redrives),
    )


@pytest.mark.parametrize("fault", ["quarantine", "token", "reason"])
def test_the_reduction_hides_no_violation(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_model(fault, monkeypatch)
    found = []
    for reduced in (False, True):
        with pytest.raises(Broken) as broken:
            explore(scope("any", replace(SINGLE, reduced=reduced)), INVARIANTS, LAWS)
        found.append((broken.value.name, len(broken.value.path)))
    assert found[0] == found[1]


def break_model(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "quarantine":
        monkeypatch.setattr(lease, "_quarantine", lambda state, _now_ms: state)
    if fault == "reason":
        right = lease._dead
        monkeypatch.setattr(lease, "_dead", lambda job, why: right(job, "" if why == "exhausted" else why))
    if fault == "token":
        revive = lease._redrive

        def forgetful(state: State, op: Redrive) -> tuple[State, Reply]:
            after, reply = revive(state, op)
            if after is state:
                return state, reply
            jobs = tuple(job._replace(token=0) if job.id == op.job_id else job for job in after.jobs)
            return State(jobs, after.redrives), reply

        monkeypatch.setattr(lease, "_redrive", forgetful)


@pytest.mark.parametrize(
    ("fault", "name", "steps"),
    [
        ("quarantine", "eventually: one poll at the last deadline leaves nothing open", 1),
        ("reason", "a dead job has a reason, a done job has none", 3),
        ("token", "a token is issued once and grows", 4),
    ],
)
def test_a_broken_model_gives_its_shortest_counterexample(
    fault: str, name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_model(fault, monkeypatch)
    with pytest.raises(Broken) as broken:
        explore(scope("single", SINGLE), INVARIANTS, LAWS)
    assert (broken.value.name, len(broken.value.path)) == (name, steps)


def test_a_concrete_path_is_a_program_of_the_model() -> None:
    world = explore(scope("small", SMALL))
    for number in range(0, len(world.states), 97):
        state = lease.EMPTY
        for step in world.path(number):
            assert differences(step.before, state) == ""
            state, reply = lease.step(state, step.op)
            assert (state, reply) == (step.after, step.reply)
        assert world.scope.canonical(state) == world.states[number]


def ops_commute(world_scope: Scope[State, Op, Reply], state: State) -> bool:
    """From a state and from its canonical twin the same canonical states are reached."""
    twin = world_scope.canonical(state)
    reached = [
        {world_scope.canonical(world_scope.step(one, op)[0]) for op in world_scope.ops(one)} for one in (state, twin)
    ]
    return reached[0] == reached[1]


def test_operations_commute_with_the_symmetry() -> None:
    small = scope("small", SMALL)
    unshifted = Scope("unshifted", small.initial, small.step, small.ops)
    assert all(ops_commute(small, state) for state in explore(unshifted).states[::7])
