"""Who comes while an operation stands in a hook: the same by somebody else, and every kind of thing that may come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chaos.experiments import ENQUEUES, SCENES
from chaos.matrix import Scene
from chaos.schedules import Lock, by_hook
from chaos.stages import BEFORE_BEGIN, BEFORE_SECOND_BEGIN
from chaos.stream_experiments import SCENES as STREAM_SCENES
from chaos.stream_experiments import WAYS
from model import contract, events, lease, stream
from model.contract import Claim, Enqueue, Finish, Hook, Redrive, Reopen, Return, Ticket
from model.events import Apply, Consume

LATER_MS: Final = 100
"""After every lease of a scene, and before the deadline of most of its jobs."""


def of_queue(scene: Scene) -> Iterator[tuple[contract.Plain, Lock]]:
    """The same operation, and one of every kind on the same job and on another."""
    state = lease.EMPTY
    for op in scene.setup:
        state, _ = lease.step(state, op)
    for rival in _of_queue(scene):
        after, _ = lease.step(state, rival)
        yield rival, "may" if after == state else "must"


def _of_queue(scene: Scene) -> Iterator[contract.Plain]:
    now_ms = scene.op.now_ms
    yield scene.op
    yield Claim("rival", now_ms)
    yield Claim("rival", now_ms + LATER_MS)
    yield Enqueue("a", 5, now_ms, 1000)
    yield Enqueue("other", 7, now_ms, 1000)
    yield Redrive("a", now_ms, 1000, "rival")
    for ticket in _tickets(scene):
        yield Finish(ticket, "ok", now_ms)
        yield Finish(ticket, "retry", now_ms, 1)


def _tickets(scene: Scene) -> Iterator[Ticket]:
    """Whatever was ever handed out up to here, and what the operation itself hands out."""
    state = lease.EMPTY
    for op in (*scene.setup, scene.op):
        state, reply = lease.step(state, op)
        if isinstance(reply, Return) and isinstance(reply.value, Ticket):
            yield reply.value


def of_stream(scene: Scene) -> Iterator[tuple[events.Plain, Lock]]:
    """The same event and the next one, each event before it, with its delta and another, one that is too early; by call
    and as a line, which look into the store under the lock; and what is no line, for which there is no need to look.
    """
    told = _events(scene)
    seq, _ = told[-1]
    others = [(seq, _other(delta)) for seq, delta in told]
    for event in WAYS.values():
        for rival in (*told, *others, (seq + 1, 3), (seq + 2, 3)):
            yield event(*rival), "must"
    yield Consume(b"EVENT 0 7\r\n"), "must not"


def _events(scene: Scene) -> list[tuple[int, int]]:
    """Those that are in the ledger when the operation has ended."""
    state = stream.EMPTY
    for op in (*scene.setup, scene.op):
        state, _ = stream.step(state, op)
    return [(entry.seq, entry.delta) for entry in state.ledger]


def _other(delta: int) -> int:
    return delta - 1 if delta > 0 else delta + 1


def _begins(*ops: type) -> tuple[Hook, ...]:
    return tuple(Hook(name, op, kept=False) for name in (BEFORE_BEGIN, BEFORE_SECOND_BEGIN) for op in ops)


QUEUE_SCHEDULES: Final = by_hook(
    (*_begins(Enqueue, Claim, Finish, Redrive), *contract.FAULT_HOOKS), (*ENQUEUES, *SCENES), of_queue
)
STREAM_SCHEDULES: Final = by_hook(
    (*_begins(Apply, Consume), *events.FAULT_HOOKS),
    (scene for scene in STREAM_SCENES if Reopen() not in scene.setup),
    of_stream,
)
