"""The stream's experiments: one event, by call and by line, at the start and later on, whatever came before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from chaos import stages
from chaos.matrix import Experiment, Scene, matrix, statements
from chaos.systems import STREAM
from model.contract import Hook, Reopen
from model.events import FAULT_HOOKS, Apply, Consume, Plain, event_line

Way = Callable[[int, int], Plain]


def line(seq: int, delta: int) -> Consume:
    """The event as a line."""
    return Consume(event_line(seq, delta))


WAYS: Final[dict[str, Way]] = {"": Apply, " line": line}


class StreamExperiment(Experiment):
    """A receiver dies over an event."""

    __slots__ = ()
    system: ClassVar = STREAM


def _scenes(word: str, event: Way) -> Iterator[Scene]:
    known = (Apply(0, 7), line(1, -1000), Apply(2, 1000))
    refused = (Apply(0, 7), line(0, 7), Apply(0, 8), line(2, 5), Consume(b"EVENT 1 5\r\n"))
    yield Scene(f"first event{word}", (), event(0, 7))
    yield Scene(f"later event{word}", known, event(3, 5))
    yield Scene(f"event{word} of delta 0", known[:1], event(1, 0))
    yield Scene(f"event{word} of a negative delta", known[:1], event(1, -1000))
    yield Scene(f"event{word} after a reopening", (*known[:2], Reopen(), known[2], Reopen()), event(3, 5))
    yield Scene(f"event{word} after others were refused", refused, event(1, 5))


SCENES: Final = tuple(scene for word, event in WAYS.items() for scene in _scenes(word, event))

MATRIX: Final = matrix(StreamExperiment, FAULT_HOOKS, SCENES)
STATEMENTS: Final = matrix(StreamExperiment, statements(Apply, Consume), SCENES)

_MANY: Final = tuple(Apply(seq, 1000) for seq in range(32))
SPILLED: Final = tuple(
    StreamExperiment(f"event{word} that has spilled into the file", _MANY, event(len(_MANY), 1000), stage, tight=True)
    for word, event in WAYS.items()
    for op in [type(event(0, 0))]
    for stage in (Hook("after-total", op, kept=False), Hook(stages.BEFORE_COMMIT, op, kept=False))
)

EXPERIMENTS: Final = (*MATRIX, *STATEMENTS, *SPILLED)
