"""``run_client`` in an event loop of its own, in a thread: how it ends, and what it leaves behind at that moment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from model.port import one_line
from stateful_tests.publisher import PATIENCE, Silence

BUSY_S: Final = 5.0
TURNS: Final = 5
"""Turns of the event loop after which what was to be closed must be: asyncio closes a socket one turn late."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the call ended: in an error, or in a value."""

    value: object = None
    error: BaseException | None = None

    def __str__(self) -> str:
        if self.error is None:
            return f"returns {self.value!r}"
        return f"raises {one_line(self.error)}".removesuffix(":")


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward, so that a check need not wait, and whose buffers can be small."""

    ahead = 0.0
    send_buffer: int | None = None
    write_limit: int | None = None

    def time(self) -> float:
        return super().time() + self.ahead

    def is_busy(self) -> bool:
        """Whether other callbacks are to be called in this turn or the next one."""
        ready: Sequence[object] = self._ready  # type: ignore[attr-defined]
        return bool(ready)

    async def create_connection(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - handed on as it is
        """As ever, but with buffers of these sizes: the kernel's, and asyncio's, beyond which a sender must wait."""
        transport, protocol = await super().create_connection(*args, **named)
        if self.send_buffer is not None:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
        if self.write_limit is not None:
            transport.set_write_buffer_limits(self.write_limit)
        return transport, protocol


class Receiver:
    """One call in a thread. ``bell`` can be read once it has ended; the loop then goes on until ``release``.

    The call is awaited in the task that runs it, so that no loop sees the interrupts that its hooks raise.
    """

    def __init__(self, call: Callable[[], Awaitable[object]], loop: Loop, *, debug: bool = False) -> None:
        self.loop = loop
        self.loop.set_debug(debug)
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(_complaint(context)))
        self.complaints: list[str] = []
        self.tasks_left: list[str] = []
        self.ended: Ended | None = None
        self.bell, self._rope = socket.socketpair()
        self._call, self._debug = call, debug
        self._task: asyncio.Task[Any] | None = None
        self._released = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(debug=self._debug, loop_factory=lambda: self.loop) as runner:
                runner.run(self._watched())
        except BaseException as error:  # noqa: BLE001 - an interrupt that a task of the module let through
            self.ended = Ended(error=error)
        finally:
            self._rope.close()

    async def _watched(self) -> None:
        self._task = asyncio.current_task()
        try:
            self.ended = Ended(await self._call())
        except BaseException as error:  # noqa: BLE001 - however it ends, it is judged
            self.ended = Ended(error=error)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        self.tasks_left = sorted(str(task.get_coro()) for task in others)
        with contextlib.suppress(OSError):  # nobody waits any more
            self._rope.send(b"!")
        await self._released.wait()

    # --- from outside -------------------------------------------------------------------------------------------------

    def wait(self, patience: float = PATIENCE) -> Ended:
        """How the call ends; Silence if it does not."""
        if not self.rings(patience) or self.ended is None:
            raise Silence("for the end of run_client")
        return self.ended

    def settle(self) -> None:
        """Return once the loop has had nothing to do for some turns, or is busy for long: by then the call has read
        what was sent to it, and waits or has ended.
        """
        done, until = threading.Event(), time.monotonic() + BUSY_S

        def turn(left: int) -> None:
            if self.loop.is_busy() and time.monotonic() < until:
                left = TURNS
            if left:
                self.loop.call_soon(turn, left - 1)
            else:
                done.set()

        if not (self._at_the_loop(turn, TURNS) and done.wait(PATIENCE)) and self._thread.is_alive():
            raise Silence("for the event loop, which run_client blocks")

    def pass_time(self, seconds: float) -> None:
        """Put the clock forward, and let the loop see it."""
        self.loop.ahead += seconds
        self._at_the_loop(bool)

    def rings(self, patience: float) -> bool:
        """Whether the call has ended, or does so before long."""
        ready, _, _ = select.select([self.bell], [], [], patience)
        return bool(ready)

    def cancel(self) -> None:
        """Cancel the call, unless it has ended."""
        self._at_the_loop(lambda: self.ended is None and self._task is not None and self._task.cancel())

    def release(self) -> bool:
        """Let loop and thread end; whether they did."""
        return self._part(PATIENCE)

    def abandon(self) -> None:
        """Get rid of a call that may hang."""
        self.cancel()
        self._part(1.0)

    def _part(self, patience: float) -> bool:
        self._at_the_loop(self._released.set)
        self._thread.join(patience)
        self.bell.close()
        return not self._thread.is_alive()

    def _at_the_loop(self, step: Callable[..., object], *args: object) -> bool:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(step, *args)
            return True
        return False


def _complaint(context: dict[str, Any]) -> str:
    """What the event loop has to say of an error that nobody took."""
    error = context.get("exception")
    return f"{context['message']}{f' ({error!r})' if error else ''}"


# --- what is open -----------------------------------------------------------------------------------------------------


def open_descriptors() -> dict[int, os.stat_result]:
    """The open descriptors of this process, and what they are."""
    found = {}
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found[int(entry.name)] = os.fstat(int(entry.name))
    return found


def internet_sockets() -> set[int]:
    """The descriptors of this process that are sockets towards the network."""
    numbers = (number for number, status in open_descriptors().items() if stat.S_ISSOCK(status.st_mode))
    return {number for number in numbers if _family(number) in (socket.AF_INET, socket.AF_INET6)}


def _family(number: int) -> int:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as sock:
        return sock.family
    return socket.AF_UNSPEC
