"""What must hold of the receiver's store, by name: always, sometimes, eventually; each with the clause it comes from.

Written over rows, operations and replies alone, without a call of the model, except where a law speaks of what would
be answered next.
"""

from __future__ import annotations

from collections.abc import Callable

from model import stream
from model.contract import CONFLICT, LOCKED, PLANTED, REFUSED, Blocked, Crash, Reply, Return, plain
from model.events import BAD_LINE, FAULT_HOOKS, GAP, Apply, Consume, Entry, Op, State, ack_line, event_line
from model.explorer import Invariant, Law, Sometimes

Seen = Callable[[State, Op, State, Reply], bool]


# --- always, in every state -------------------------------------------------------------------------------------------


def _total_is_the_sum(state: State) -> bool:
    return [row.total for row in state.checkpoint] == [sum(entry.delta for entry in state.ledger)]


def _ledger_is_whole(state: State) -> bool:
    return [entry.seq for entry in state.ledger] == list(range(state.checkpoint[0].last + 1))


def _next_event_is_processed(state: State) -> bool:
    """Eventually: whatever died before, the next event is processed once it comes."""
    seq = state.checkpoint[0].last + 1
    after, reply = stream.step(state, Consume(event_line(seq, 1)))
    return reply == Return(ack_line(seq)) and after.ledger == (*state.ledger, Entry(seq, 1))


OF_ROWS = (
    Invariant("the total is the sum of the ledger", "apply_event", _total_is_the_sum),
    Invariant("the ledger holds each event up to the last, and no other", "apply_event", _ledger_is_whole),
)
INVARIANTS = (
    *OF_ROWS,
    Invariant("eventually: the next event is processed, whoever died", "consume_line", _next_event_is_processed),
)


# --- always, of every transition --------------------------------------------------------------------------------------


def _cursor_stays_or_steps(before: State, op: Op, after: State, reply: Reply) -> bool:
    del op, reply
    return before is after or after.checkpoint[0].last == before.checkpoint[0].last + 1


def _only_the_next_event_counts(before: State, op: Op, after: State, reply: Reply) -> bool:
    """What is new in the ledger is the one event that was asked for, after all that were there."""
    del reply
    if before is after:
        return True
    return after.ledger[:-1] == before.ledger and any(_says(op, new) for new in after.ledger[-1:])


def _says(op: Op, entry: Entry) -> bool:
    return plain(op) in (Apply(*entry), Consume(event_line(*entry)))


def _yes_means_processed(before: State, op: Op, after: State, reply: Reply) -> bool:
    """True, False and an ACK say that this very event, with this delta, is in the ledger; True, that it was not."""
    if isinstance(op, Blocked | Crash) or not isinstance(reply, Return) or reply == stream.NONE:
        return True
    if (reply == stream.TRUE) != (before is not after) and isinstance(op, Apply):
        return False
    held = [entry for entry in after.ledger if _says(op, entry)]
    if isinstance(op, Consume):
        return [reply] == [Return(ack_line(entry.seq)) for entry in held]
    return len(held) == 1


def _an_error_changes_nothing(before: State, op: Op, after: State, reply: Reply) -> bool:
    """But one that was planted behind the COMMIT."""
    if isinstance(reply, Return) or before is after:
        return True
    return reply == PLANTED and isinstance(op, Crash) and op.hook == "after-commit"


LAWS = (
    Law("the cursor never moves back, nor by more than one", "apply_event", _cursor_stays_or_steps),
    Law("only the next event changes the store", "apply_event, consume_line", _only_the_next_event_counts),
    Law("True, False and an ACK are for what is in the ledger", "apply_event, consume_line", _yes_means_processed),
    Law("an error changes nothing", "apply_event, consume_line", _an_error_changes_nothing),
)


# --- sometimes --------------------------------------------------------------------------------------------------------


def _answers(kind: type[Op], reply: Reply) -> Seen:
    return lambda _before, op, _after, got: isinstance(op, kind) and got == reply


def _acknowledges(*, anew: bool) -> Seen:
    def seen(before: State, op: Op, after: State, reply: Reply) -> bool:
        return isinstance(op, Consume) and isinstance(reply, Return) and (before is not after) == anew

    return seen


def _old_conflict(before: State, op: Op, _after: State, reply: Reply) -> bool:
    return isinstance(op, Apply) and reply == CONFLICT and op.seq < before.checkpoint[0].last


def _dies(hook: str, kind: type[Op], *, kept: bool) -> Seen:
    def seen(before: State, op: Op, after: State, reply: Reply) -> bool:
        dies = isinstance(op, Crash) and isinstance(op.op, kind) and op.hook == hook and reply == PLANTED
        return dies and (after is not before) == kept

    return seen


SOMETIMES = (
    Sometimes("apply_event answers True", _answers(Apply, stream.TRUE)),
    Sometimes("apply_event answers False", _answers(Apply, stream.FALSE)),
    Sometimes("apply_event raises Conflict", _answers(Apply, CONFLICT)),
    Sometimes("apply_event raises Conflict for an event before the last", _old_conflict),
    Sometimes("apply_event raises Gap", _answers(Apply, GAP)),
    Sometimes("apply_event raises ValueError", _answers(Apply, REFUSED)),
    Sometimes("consume_line acknowledges a new event", _acknowledges(anew=True)),
    Sometimes("consume_line acknowledges a known event", _acknowledges(anew=False)),
    Sometimes("consume_line raises Conflict", _answers(Consume, CONFLICT)),
    Sometimes("consume_line raises Gap", _answers(Consume, GAP)),
    Sometimes("consume_line raises BadLine", _answers(Consume, BAD_LINE)),
    Sometimes("a COMMIT fails under a reader", _answers(Blocked, LOCKED)),
    *(
        Sometimes(
            f"{hook.op.__name__.lower()} dies in {hook.name}: {'kept' if hook.kept else 'lost'}",
            _dies(hook.name, hook.op, kept=hook.kept),
        )
        for hook in FAULT_HOOKS
    ),
)
