"""What must hold between publisher and receiver, by name: always, sometimes, eventually; each with its clause.

Written over stores, lines and moves; only where a law speaks of what happens next does it call the model. The clauses
are those of ``client.py``: apply_event, consume_line, replay, run_client.
"""

from __future__ import annotations

from collections.abc import Callable

from model import events, session
from model.contract import CONFLICT, PLANTED, Reply, Return
from model.events import BAD_LINE, GAP, RESYNC_REQUIRED, ack_line, event_line, resume_line
from model.explorer import Invariant, Law, Sometimes
from model.session import EVENTS, Connect, Drop, Hear, Move, Receive, Send, Session
from model.session_scopes import fair
from model.stream_invariants import OF_ROWS

PATIENCE = 60
"""More moves than a fair world of three events needs from any state on."""

Seen = Callable[[Session, Move, Session, Reply], bool]


# --- always, in every state -------------------------------------------------------------------------------------------


def _of_the_store(holds: Callable[[events.State], bool]) -> Callable[[Session], bool]:
    return lambda state: holds(state.store)


def _ledger_is_what_was_published(state: Session) -> bool:
    return state.store.ledger == EVENTS[: len(state.store.ledger)]


def _acks_are_of_committed(state: Session) -> bool:
    """Heard, under way, or about to be written."""
    said = [state.heard]
    if state.wire is not None:
        said += map(_number, state.wire.back)
        said += [] if state.wire.owed is None else [state.wire.owed]
    return max(said) <= state.last


def _number(line: bytes) -> int:
    return int(line.split()[1])


def _settles(state: Session) -> bool:
    """Eventually: with every move a fair one, the receiver holds the whole log and the publisher has heard so, or the
    receiver was told that it cannot.
    """
    for _ in range(PATIENCE):
        if state.last == state.heard == state.newest:
            return True
        state, reply = session.step(state, fair(state))
        if reply == RESYNC_REQUIRED:
            return True
    return False


INVARIANTS = (
    *(Invariant(each.name, each.clause, _of_the_store(each.holds)) for each in OF_ROWS),
    Invariant(
        "the ledger is what was published, from the first event on", "apply_event", _ledger_is_what_was_published
    ),
    Invariant("an ACK is for what is committed", "consume_line", _acks_are_of_committed),
    Invariant("eventually: all is processed and acknowledged, or ResyncRequired", "consume_line, replay", _settles),
)


# --- always, of every transition --------------------------------------------------------------------------------------


def _cursor_stays_or_steps(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    del move, reply
    return after.last - before.last in (0, 1)


def _only_the_next_event_counts(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """A store that changes does so because its receiver has read the event that it lacks, in full."""
    del reply
    if before.store == after.store:
        return True
    if not isinstance(move, Receive) or before.wire is None or len(EVENTS) <= before.last + 1:
        return False
    return before.wire.lines[0] == event_line(*EVENTS[before.last + 1])


def _an_error_ends_the_connection(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """A conflict, a gap and a malformed line change nothing, and nothing after them is read."""
    if not isinstance(move, Receive) or reply not in (CONFLICT, GAP, BAD_LINE):
        return True
    return after.store == before.store and after.wire is None


def _acknowledged_means_processed(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """The very event of the line, delta and all, whether it is new or comes again."""
    if not isinstance(move, Receive) or before.wire is None or not isinstance(reply, Return):
        return True
    said = [ack_line(entry.seq) for entry in after.store.ledger if event_line(*entry) == before.wire.lines[0]]
    return [reply.value] == said


def _a_death_is_whole(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """Before the COMMIT a death loses the event, behind it it keeps it; it always takes the connection along."""
    if reply != PLANTED:
        return True
    kept = isinstance(move, Receive) and move.hook == "after-commit"
    return (after.last > before.last) == kept and after.wire is None


def _resume_says_the_cursor(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    del reply
    if not isinstance(move, Connect):
        return True
    return after.wire is not None and after.wire.back == (resume_line(before.last),)


def _nothing_is_passed_over(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """What a receiver needs next is what it is sent next; where that is gone, or never was, it gets ResyncRequired."""
    if before.wire is None or reply == RESYNC_REQUIRED:
        return True
    if isinstance(move, Hear) and before.wire.sent is None:
        (resume,) = before.wire.back
        return before.first <= _number(resume) + 1 <= before.newest + 1
    if isinstance(move, Send) and before.wire.sent is not None and after != before:
        due = before.wire.sent + 1
        return after.wire is not None and after.wire.lines[-1] == event_line(*EVENTS[due])
    return True


def _resync_has_a_reason(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """ResyncRequired ends the connection of a receiver that needs what is not in the log, and of no other."""
    del move
    if reply != RESYNC_REQUIRED:
        return True
    if before.wire is None or after != before._replace(wire=None):
        return False
    at = _number(before.wire.back[0]) if before.wire.sent is None else before.wire.sent
    return not before.first <= at + 1 <= before.newest + 1


LAWS = (
    Law("the cursor never moves back, nor by more than one", "apply_event", _cursor_stays_or_steps),
    Law("only the next event changes the store", "apply_event, consume_line", _only_the_next_event_counts),
    Law("an error changes nothing and ends the connection", "apply_event, run_client", _an_error_ends_the_connection),
    Law("what is acknowledged is in the ledger, delta and all", "consume_line", _acknowledged_means_processed),
    Law("a death in a hook keeps all or nothing", "apply_event", _a_death_is_whole),
    Law("RESUME says the cursor", "run_client", _resume_says_the_cursor),
    Law("what is no longer held is not passed over", "replay", _nothing_is_passed_over),
    Law("ResyncRequired comes only where it must", "replay", _resync_has_a_reason),
)


# --- sometimes --------------------------------------------------------------------------------------------------------


def _on_receiving(reply: Reply) -> Seen:
    return lambda _before, move, _after, got: isinstance(move, Receive) and got == reply


def _dies(hook: str, *, kept: bool) -> Seen:
    def seen(before: Session, move: Move, after: Session, reply: Reply) -> bool:
        dies = isinstance(move, Receive) and move.hook == hook and reply == PLANTED
        return dies and (after.store != before.store) == kept

    return seen


def _a_duplicate(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    return isinstance(move, Receive) and isinstance(reply, Return) and after.store == before.store


def _an_unanswered_duplicate(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    """No ACK for it was ever written: who committed it died before."""
    again = _a_duplicate(before, move, after, reply) and not before.answered
    return again and reply == Return(ack_line(before.last))


def _resync(move: type[Move], *, ahead: bool) -> Seen:
    def seen(before: Session, made: Move, _after: Session, reply: Reply) -> bool:
        return isinstance(made, move) and reply == RESYNC_REQUIRED and (before.last > before.newest) == ahead

    return seen


def _all_is_heard(before: Session, move: Move, after: Session, reply: Reply) -> bool:
    del reply
    return isinstance(move, Hear) and before.heard < after.heard == after.newest == after.last


def _lost(what: str) -> Seen:
    """A connection breaks while this is under way on it."""
    return lambda before, move, _after, _reply: isinstance(move, Drop) and _under_way(before, what)


def _under_way(state: Session, what: str) -> bool:
    wire = state.wire
    if wire is None:
        return False
    acks = [line for line in wire.back if line.startswith(b"ACK")]
    return bool({"an event": wire.lines, "an ACK": acks, "a debt": wire.owed is not None and not state.answered}[what])


SOMETIMES = (
    Sometimes("the publisher has heard that all is processed", _all_is_heard),
    Sometimes("an event that comes again is acknowledged again", _a_duplicate),
    Sometimes("an event meets Conflict", _on_receiving(CONFLICT)),
    Sometimes("an event meets Gap", _on_receiving(GAP)),
    Sometimes("a line is a BadLine", _on_receiving(BAD_LINE)),
    Sometimes("a receiver dies in after-total: lost", _dies("after-total", kept=False)),
    Sometimes("a receiver dies in after-commit: kept", _dies("after-commit", kept=True)),
    Sometimes("a receiver dies between commit and ACK", _lost("a debt")),
    Sometimes("an ACK is lost with its connection", _lost("an ACK")),
    Sometimes("an event is lost with its connection", _lost("an event")),
    Sometimes("after a death between commit and ACK the event comes again", _an_unanswered_duplicate),
    Sometimes("RESUME meets ResyncRequired: the log was trimmed", _resync(Hear, ahead=False)),
    Sometimes("RESUME meets ResyncRequired: the receiver is ahead", _resync(Hear, ahead=True)),
    Sometimes("a log is trimmed in the middle of a session", _resync(Send, ahead=False)),
)
