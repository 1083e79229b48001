"""The processes of a reception from the outside: one publisher, and one receiver after another."""

from __future__ import annotations

import contextlib
import json
import select
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from chaos import killer
from chaos.crew import heard
from chaos.killer import Child, Unanswered, kill, listen, running, tell
from chaos.receiver import Order
from chaos.wire import encode

Speaker = Literal["publisher", "receiver"]


class Exchange:
    """The publisher starts when it is first called for, a receiver when there is none; ``dismiss`` ends them all."""

    def __init__(self, module: Path) -> None:
        self._module = module
        self._there: dict[Speaker, Child] = {}
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
        self._there.clear()
        self._processes.close()

    def call(self) -> None:
        """Have both started: one that has not been killed stays."""
        new: list[Speaker] = [name for name in ("publisher", "receiver") if name not in self._there]
        for name in new:
            self._there[name] = self._processes.enter_context(running(f"chaos.{name}", str(self._module)))
        if "publisher" in new:
            _, self.port = heard(self._there["publisher"], "port")

    def publisher(self, *order: object) -> None:
        """Tell the publisher."""
        tell(self._there["publisher"], encode(*order))

    def receiver(self, order: Order) -> None:
        """Have the receiver make one call."""
        tell(self._there["receiver"], encode(asdict(order)))

    def answer(self, word: str) -> list[Any]:
        """What the publisher says to an order that it answers at once."""
        return heard(self._there["publisher"], word)[1:]

    def speaks(self, within_s: float) -> bool:
        """Whether either has something to say by then."""
        return bool(self._ready(within_s))

    def word(self) -> tuple[Speaker, list[Any]]:
        """The next word of either; the publisher's first, if both have something to say."""
        ready = self._ready(killer.PATIENCE_S)
        for name, child in self._there.items():
            if child.words.fileno() in ready:
                return name, json.loads(listen(child, "its next word"))
        raise Unanswered(f"neither publisher nor receiver has said anything for {killer.PATIENCE_S:g} s")

    def _ready(self, within_s: float) -> set[int]:
        poll = select.poll()
        for child in self._there.values():
            poll.register(child.words, select.POLLIN)
        return {number for number, _ in poll.poll(within_s * 1000)}

    def kill(self) -> None:
        """SIGKILL for the receiver, proven; the next call starts another process."""
        kill(self._there.pop("receiver"))
