"""The two systems whose processes die: how a module of each is loaded and asked, and the model that it answers to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from model import contract, events, lease, port, stream
from model.contract import CLIENT, WORKER, Hook, Kind
from model.counterexample import Op
from model.port import Model, Subject
from model.queue import Queue
from model.store import Store


class System(NamedTuple):
    """A kind of module; ``subject`` makes one of a module and its file, ``parse`` reads the ``repr`` of an operation.

    ``hooks`` is its part of the one table.
    """

    kind: Kind
    model: Model[Any, Any]
    hooks: tuple[Hook, ...]
    subject: Callable[[Any, Path], Subject[Any, Any]]
    parse: Callable[[str], Op]

    def load(self, path: str | os.PathLike[str]) -> object:
        """The module at ``path``; Unfit if it is none of this kind."""
        return port.load(path, self.kind)


QUEUE: Final = System(WORKER, lease, contract.FAULT_HOOKS, Queue, contract.parse)
STREAM: Final = System(CLIENT, stream, events.FAULT_HOOKS, Store, events.parse)
SYSTEMS: Final = {system.kind.name: system for system in (QUEUE, STREAM)}
