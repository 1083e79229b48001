"""The process that forks those of a storm: ``python -m chaos.nursery MODULE``.

It never loads the module under test nor opens a database: each process that it forks does so for itself. An order is a
line of JSON on stdin: a ``Post``, or the pid of one and a signal for it. On stdout it says, with its pid, of each
process that it has stopped or died, and all that it has forked say their words there. When stdin closes, all of them
die.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from chaos.stormer import Life, Post
from chaos.wire import encode
from model.port import one_line
from model.queue import load

Live = Callable[[dict[str, Any], str, int], None]
"""What a forked process does: from its order, the path of the module, and the pipe for its words."""


def main(module: str, live: Live) -> None:
    """Fork what stdin orders and say, with its pid, of each process that it has stopped or died."""
    words, orders = os.dup(1), os.dup(0)
    os.dup2(2, 1)  # what the module prints is not a word
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    news, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(bell)
    poll = select.poll()
    for pipe in (orders, news):
        poll.register(pipe, select.POLLIN | select.POLLHUP)
    alive, unread = set[int](), b""
    while True:
        ready = {pipe for pipe, _ in poll.poll()}
        if news in ready:
            os.read(news, 4096)
            _report(words, alive)
        if orders in ready:
            part = os.read(orders, 65536)
            if not part:
                return
            *lines, unread = (unread + part).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if isinstance(order, list):
                    pid, number = order
                    if pid in alive:  # or dead and not reaped yet: the pid is nobody else's
                        os.kill(pid, number)
                elif pid := os.fork():
                    alive.add(pid)
                else:
                    _forget_parent(orders, news, bell)
                    _begin(order, module, words, live)


def _forget_parent(*pipes: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for pipe in pipes:
        os.close(pipe)


def _report(words: int, alive: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if not pid:
            return
        if not os.WIFSTOPPED(status):
            alive.discard(pid)
        word: list[Any] = (
            ["stopped", pid] if os.WIFSTOPPED(status) else ["died", pid, os.waitstatus_to_exitcode(status)]
        )
        os.write(words, encode("", *word))


def _begin(order: dict[str, Any], module: str, words: int, live: Live) -> NoReturn:
    """What is forked never returns into the one that forked it, whatever the module raises."""
    os.write(words, encode(order["name"], "born", os.getpid()))
    status = 1
    try:
        live(order, module, words)
        status = 0
    except BaseException as error:  # noqa: BLE001 - said, instead of raised into the loop that forks
        os.write(words, encode(order["name"], "fails", one_line(error)))
    finally:
        os._exit(status)


def _live(order: dict[str, Any], module: str, words: int) -> None:
    life = Life(Post(**order), load(module), words)
    life.live(life.work if life.post.owner else life.operate)


def run(live: Live) -> None:
    """Until stdin closes; the module is the one that the command names."""
    try:
        main(sys.argv[1], live)
    finally:
        os.killpg(0, signal.SIGKILL)  # those that have stopped would hear of nothing else


if __name__ == "__main__":
    run(_live)
