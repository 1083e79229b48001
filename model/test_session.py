"""Each property of publisher and receiver can fail: a model that is broken in one way breaks the one that is meant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from model import session, stream
from model.contract import Raise, Reply, Return
from model.events import RESYNC_REQUIRED, Apply, Checkpoint, Entry, State, ack_line, event_line
from model.explorer import Broken, explore
from model.session import EVENTS, Drop, Receive, Session, Wire
from model.session_invariants import INVARIANTS, LAWS, SOMETIMES
from model.session_scopes import SCOPES, fair
from model.session_story import story

Patch = Callable[[pytest.MonkeyPatch], None]

APPLY, RECEIVE, CONNECT, REPLAY = stream._apply, session._receive, session._connect, stream.replay


def applying(apply: Callable[[State, Apply], stream.Step]) -> Patch:
    return lambda patch: patch.setattr(stream, "_apply", apply)


def receiving(receive: Callable[[Session, Wire, Receive], session.Outcome]) -> Patch:
    return lambda patch: patch.setattr(session, "_receive", receive)


def processed(state: State, op: Apply, last: int, total: int, *rows: Entry) -> stream.Step:
    del op
    return State((Checkpoint(1, last, state.checkpoint[0].total + total),), (*state.ledger, *rows)), stream.TRUE


def cursor_without_ledger(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    return (after, reply) if after is state else processed(state, op, op.seq, 0)


def total_twice(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    return (after, reply) if after is state else processed(state, op, op.seq, 2 * op.delta, Entry(op.seq, op.delta))


def duplicate_counted(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    last = stream.last_of(state)
    return processed(state, op, last, op.delta) if reply == stream.FALSE else (after, reply)


def gap_tolerated(state: State, op: Apply) -> stream.Step:
    if op.seq > stream.last_of(state) + 1:
        return processed(state, op, op.seq, op.delta, Entry(op.seq, op.delta))
    return APPLY(state, op)


def another_delta_written(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    if after is state:
        return after, reply
    return processed(state, op, op.seq, op.delta + 1, Entry(op.seq, op.delta + 1))


def conflict_overlooked(state: State, op: Apply) -> stream.Step:
    after, reply = APPLY(state, op)
    return (after, stream.FALSE) if reply == Raise("Conflict") else (after, reply)


def ack_first(state: Session, wire: Wire, move: Receive) -> session.Outcome:
    """The ACK is written at once; the commit comes with what should be the answer."""
    after, reply = RECEIVE(state, wire, move)
    if after.wire is None or after.wire.owed is None or after.store is state.store:
        return after, reply
    ack = ack_line(after.wire.owed)
    return state._replace(wire=after.wire._replace(owed=None, back=(*wire.back, ack))), reply


def duplicate_without_ack(state: Session, wire: Wire, move: Receive) -> session.Outcome:
    after, reply = RECEIVE(state, wire, move)
    if after.wire is not None and after.store is state.store:
        return after._replace(wire=after.wire._replace(owed=None)), reply
    return after, reply


def reads_on(state: Session, wire: Wire, move: Receive) -> session.Outcome:
    """After an error the next line is read as if nothing had been."""
    after, reply = RECEIVE(state, wire, move)
    wrong = isinstance(reply, Raise) and move.hook is None
    return (after._replace(wire=wire._replace(lines=wire.lines[1:])) if wrong else after), reply


def keeps_what_died(state: Session, wire: Wire, move: Receive) -> session.Outcome:
    after, reply = RECEIVE(state, wire, move)
    if move.hook != "after-total":
        return after, reply
    whole, _ = RECEIVE(state, wire, Receive())
    return whole._replace(wire=None), reply


def newest_only(log: stream.Log, cursor: int, limit: int) -> list[tuple[int, int]] | Raise | Return:
    batch = REPLAY(log, cursor, limit)
    return list(log[-limit:]) if batch == RESYNC_REQUIRED and cursor < log[0][0] else batch


def connecting(connect: Callable[[Session], Session]) -> Patch:
    return lambda patch: patch.setattr(session, "_connect", connect)


def replaying(replay: Callable[..., object]) -> Patch:
    return lambda patch: patch.setattr(stream, "replay", replay)


SETTLES = "eventually: all is processed and acknowledged, or ResyncRequired"
TOTAL, WHOLE = "the total is the sum of the ledger", "the ledger holds each event up to the last, and no other"
PUBLISHED = "the ledger is what was published, from the first event on"
COMMITTED = "an ACK is for what is committed"
CURSOR, NEXT = "the cursor never moves back, nor by more than one", "only the next event changes the store"
ERROR, DEATH = "an error changes nothing and ends the connection", "a death in a hook keeps all or nothing"
PROCESSED = "what is acknowledged is in the ledger, delta and all"
RESUME = "RESUME says the cursor"
PASSED, REASON = "what is no longer held is not passed over", "ResyncRequired comes only where it must"

BROKEN: dict[str, tuple[Patch, tuple[str, ...]]] = {
    "the cursor moves without the ledger": (applying(cursor_without_ledger), (WHOLE, PROCESSED)),
    "an event counts twice at once": (applying(total_twice), (TOTAL,)),
    "a duplicate counts again": (applying(duplicate_counted), (TOTAL, NEXT)),
    "a gap is tolerated": (applying(gap_tolerated), (WHOLE, PUBLISHED, CURSOR, NEXT)),
    "another delta is written": (applying(another_delta_written), (PUBLISHED, PROCESSED)),
    "a conflict is taken for a duplicate": (applying(conflict_overlooked), (PROCESSED,)),
    "the ACK goes before the commit": (receiving(ack_first), (COMMITTED, PROCESSED)),
    "a duplicate gets no ACK": (receiving(duplicate_without_ack), (SETTLES,)),
    "what follows an error is read": (receiving(reads_on), (ERROR,)),
    "a half-made change is kept": (receiving(keeps_what_died), (DEATH,)),
    "the cursor is reset on reconnecting": (
        connecting(lambda state: CONNECT(state._replace(store=stream.EMPTY))),
        (COMMITTED, CURSOR, NEXT),
    ),
    "every receiver asks for all again": (
        connecting(lambda state: state._replace(wire=CONNECT(Session()).wire)),
        (RESUME,),
    ),
    "the newest events stand for those that are gone": (replaying(newest_only), (PASSED, SETTLES)),
    "every receiver is sent away": (replaying(lambda *_: RESYNC_REQUIRED), (REASON,)),
}
"""What is wrong with a model, and the properties that it breaks, each by itself."""


@pytest.mark.parametrize(("fault", "name"), [(fault, name) for fault, (_, names) in BROKEN.items() for name in names])
def test_a_broken_model_breaks_the_property(fault: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, _ = BROKEN[fault]
    patch(monkeypatch)
    meant = [each for each in INVARIANTS if each.name == name], [each for each in LAWS if each.name == name]
    with pytest.raises(Broken) as broken:
        explore(SCOPES["session"], *meant)
    assert broken.value.name == name


def test_every_property_has_been_broken() -> None:
    broken = {name for _, names in BROKEN.values() for name in names}
    assert broken == {invariant.name for invariant in INVARIANTS} | {law.name for law in LAWS}


# --- the world itself -------------------------------------------------------------------------------------------------


def test_a_move_without_its_occasion_changes_nothing() -> None:
    start = Session()
    idle = start._replace(wire=Wire())
    for state in (start, idle):
        for move in (session.Hear(), session.Send(), session.Garble(), Receive(), session.Answer()):
            assert session.step(state, move) == (state, stream.NONE)


def test_a_lost_connection_loses_only_what_was_under_way() -> None:
    wire = Wire(lines=(event_line(*EVENTS[0]),), back=(ack_line(0),), sent=0, owed=0)
    before = Session(heard=0, wire=wire)
    assert session.step(before, Drop()) == (before._replace(wire=None), stream.NONE)


def test_a_fair_world_processes_the_whole_log() -> None:
    state, moves = Session(newest=2), 0
    while (state.last, state.heard) != (2, 2):
        state, _ = session.step(state, fair(state))
        moves += 1
    assert state.store.ledger == EVENTS
    assert moves == 2 + 4 * len(EVENTS)


def test_a_death_between_commit_and_ack_is_told() -> None:
    world = explore(SCOPES["call"], sometimes=SOMETIMES)
    told = story(world.witnesses["after a death between commit and ACK the event comes again"])
    assert [re.sub(" +#", "  #", line) for line in told] == [
        " 1  a receiver connects and says RESUME -1  # last -1, total 0",
        " 2  the publisher reads RESUME -1  # last -1, total 0",
        " 3  the publisher sends EVENT 0 7  # last -1, total 0",
        " 4  the receiver reads EVENT 0 7 and dies in after-commit  # last 0, total 7",
        " 5  a receiver connects and says RESUME 0  # last 0, total 7",
        " 6  the publisher reads RESUME 0  # last 0, total 7",
        " 7  the publisher sends EVENT 0 7 again  # last 0, total 7",
        " 8  the receiver reads EVENT 0 7: known, and owes an ACK  # last 0, total 7",
    ]
    assert len({line.index("#") for line in told}) == 1


def test_every_move_can_be_told() -> None:
    world = explore(SCOPES["call"])
    told: dict[tuple[type[session.Move], Reply], str] = {}
    for number, state in enumerate(world.states):
        for move in world.scope.ops(state):
            _, reply = session.step(state, move)
            if (type(move), reply) not in told:
                told[type(move), reply] = story(world.path(number, move))[-1]
    assert {kind for kind, _ in told} == set(session.Move.__args__)
    assert len(set(told.values())) == len(told)
    assert not [line for line in told.values() if "b'" in line or "\n" in line]
