"""A reception as a program to paste: each session a call, and behind it what was seen of it."""

from __future__ import annotations

from collections.abc import Sequence

PREAMBLE = """\
import asyncio, os, signal, socket
import client
def session(*lines, half=b"", fault=None, kill=False, once=False):
    server = socket.create_server(("127.0.0.1", 0))
    if not (pid := os.fork()):
        try: print(asyncio.run(client.run_client("store.db", *server.getsockname(), 10, fault)), flush=True)
        finally: os._exit(0)
    con, saw = server.accept()[0], b""
    try:
        for line in (b"", *([b"".join(lines)] if once else lines)):
            con.sendall(line); saw += con.recv(99)
        con.sendall(half)
        os.kill(pid, signal.SIGKILL if kill else 0)
        con.shutdown(socket.SHUT_WR)
        while part := con.recv(99): saw += part
    except ConnectionError: pass
    os.waitpid(pid, 0); print(saw)
def kill_at(hook, nth, calls=[]):
    def fault(name):
        calls.append(name)
        if name == hook and calls.count(name) == nth: os.kill(os.getpid(), signal.SIGKILL)
    return fault"""
"""Good for what is reported, not for judging: it waits for ever where a receiver says nothing."""


def program(calls: Sequence[str]) -> list[str]:
    """Whole enough to paste."""
    needed = PREAMBLE.splitlines()
    if not any("kill_at(" in call for call in calls):
        needed = needed[: needed.index("def kill_at(hook, nth, calls=[]):")]
    return [*needed, *calls]


def session_call(lines: Sequence[bytes], half: bytes, hook: tuple[str, int], *, killed: bool, once: bool) -> str:
    """One session; ``hook`` is where the process kills itself, if it does."""
    named = [
        f"half={half!r}" if half else "",
        f"fault=kill_at{hook!r}" if hook[0] else "",
        "kill=True" if killed and not hook[0] else "",
        "once=True" if once else "",
    ]
    return f"session({', '.join([*map(repr, lines), *filter(None, named)])})"
