"""What the experiments share: one fork server a process of pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.forks import Server, Unsafe, serving
from chaos.killer import Unanswered


@pytest.fixture(scope="session")
def forkserver(request: pytest.FixtureRequest) -> Iterator[Callable[[], Server | None]]:
    """What forks the processes that die; None where the module must not be forked. A dead one is replaced."""
    module, servers = Path(request.config.option.worker), list[Server | None]()
    with contextlib.ExitStack() as stack:

        def serve() -> Server | None:
            if not servers or (servers[-1] is not None and servers[-1].process.process.poll() is not None):
                try:
                    servers.append(stack.enter_context(serving(module)))
                except (Unsafe, Unanswered):
                    servers.append(None)
            return servers[-1]

        yield serve
