"""The processes of a delivery from the outside: one receiver, and couriers by name."""

from __future__ import annotations

import contextlib
import json
import selectors
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos import killer
from chaos.courier import Order
from chaos.inbox import Request, Turn
from chaos.killer import Child, Unanswered, kill, listen, running, tell
from chaos.wire import encode


def heard(child: Child, *what: str) -> list[Any]:
    """The next word of the process, which has to be one of ``what``; Unanswered otherwise."""
    word: list[Any] = json.loads(listen(child, f"its word {' or '.join(what)}"))
    if word[0] not in what:
        raise Unanswered(f"the process says {word}, not {' or '.join(what)}")
    return word


class Crew:
    """Each process starts when it is first called for, and again after its death; ``dismiss`` ends them all."""

    def __init__(self, module: Path) -> None:
        self._module = module
        self._couriers: dict[str, Child] = {}
        self._receiver: Child | None = None
        self._processes = contextlib.ExitStack()
        self.port = 0

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """What has failed may leave a process in the midst of something: then all of them are dismissed."""
        try:
            yield
        except BaseException:
            self.dismiss()
            raise

    def dismiss(self) -> None:
        """End every process."""
        self._couriers.clear()
        self._receiver = None
        self._processes.close()

    # --- couriers -----------------------------------------------------------------------------------------------------

    def call(self, *names: str) -> None:
        """Have these couriers, and the receiver, started: all at once."""
        for name in names:
            if name not in self._couriers:
                process = running("chaos.courier", str(self._module))
                self._couriers[name] = self._processes.enter_context(process)
        if self._receiver is None:
            self._receiver = self._processes.enter_context(running("chaos.inbox"))
            _, self.port = heard(self._receiver, "port")

    def order(self, name: str, order: Order) -> None:
        tell(self._couriers[name], encode(asdict(order)))

    def report(self, name: str, *words: str) -> list[Any]:
        """The next word of this courier: one of ``words``, or ``ended`` with its replies and what its sends did."""
        return heard(self._couriers[name], "ended", *words)

    def ends_early(self, name: str) -> bool:
        """Wait until the receiver, or else this courier, has something to say; whether it is the courier alone."""
        talking = self._here().words, self._couriers[name].words
        with selectors.DefaultSelector() as selector:
            for words in talking:
                selector.register(words, selectors.EVENT_READ)
            speaking = {key.fileobj for key, _ in selector.select(killer.PATIENCE_S)}
        return speaking == {talking[1]}

    def kill(self, name: str) -> None:
        """SIGKILL, proven; the next call for this name starts another process."""
        kill(self._couriers.pop(name))

    # --- the receiver -------------------------------------------------------------------------------------------------

    def script(self, inbox: Path, *turns: Turn) -> None:
        """From now on deliveries go into this file, and the first requests are treated like this."""
        self._tell("script", str(inbox), [asdict(turn) for turn in turns])
        self._hear("ready")

    def stands(self) -> list[Any]:
        """Number and place of the request that has come to stand."""
        return self._hear("stands")[1:]

    def release(self, number: int) -> None:
        self._tell("go", number)

    def log(self) -> list[Request]:
        """What the receiver has seen, once every request that came has ended."""
        self._tell("log")
        return [Request(**fields) for fields in self._hear("log")[1]]

    def _tell(self, *words: object) -> None:
        tell(self._here(), encode(*words))

    def _hear(self, what: str) -> list[Any]:
        return heard(self._here(), what)

    def _here(self) -> Child:
        if self._receiver is None:
            raise Unanswered("nobody has called for the receiver")
        return self._receiver
