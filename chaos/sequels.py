"""What is done with a file after a fault, by kind: the same operation again, then a further one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from chaos.experiments import free_at
from chaos.traced import Plain
from model import contract, events, lease, stream
from model.contract import CLIENT, WORKER, Claim, Enqueue, Kind, Reopen

_FIRST_JOB: Final = Enqueue("new", 1, 100, 50_000)


def sequel(kind: Kind, state: Any, op: Plain | Reopen) -> Iterator[Plain]:  # noqa: ANN401 - of the kind, as ``op``
    """``op`` once more, or a first use of what was only opened; then something by somebody else."""
    return _SEQUELS[kind.name](state, op)


def _of_queue(state: contract.State, op: Any) -> Iterator[contract.Plain]:  # noqa: ANN401
    again = _FIRST_JOB if isinstance(op, Reopen) else op
    yield again
    after, _ = lease.step(state, again)
    yield Claim("next", free_at(after, again.now_ms))


def _of_store(state: events.State, op: Any) -> Iterator[events.Plain]:  # noqa: ANN401
    again = _next_event(state, 40) if isinstance(op, Reopen) else op
    yield again
    after, _ = stream.step(state, again)
    yield _next_event(after, -2)


def _next_event(state: events.State, delta: int) -> events.Apply:
    return events.Apply(stream.last_of(state) + 1, delta)


_SEQUELS: Final[dict[str, Callable[[Any, Any], Iterator[Plain]]]] = {WORKER.name: _of_queue, CLIENT.name: _of_store}
