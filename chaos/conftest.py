"""What the experiments share: one fork server a module and process of pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.forks import Forkserver, Server, Unsafe, serving
from chaos.killer import Unanswered
from model.contract import Kind


@pytest.fixture(scope="session")
def forkserver() -> Iterator[Forkserver]:
    """What forks the processes that die; None where the module must not be forked. A dead one is replaced."""
    servers = dict[tuple[Kind, Path], Server | None]()
    with contextlib.ExitStack() as stack:

        def serve(kind: Kind, module: Path) -> Server | None:
            key = kind, module
            if key not in servers or _is_dead(servers[key]):
                try:
                    servers[key] = stack.enter_context(serving(kind, module))
                except (Unsafe, Unanswered):
                    servers[key] = None
            return servers[key]

        yield serve


def _is_dead(server: Server | None) -> bool:
    return server is not None and server.process.process.poll() is not None
