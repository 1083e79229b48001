"""Two receivers in one event loop, each with its own publisher and store: neither knows of the other."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from pathlib import Path

import pytest

from model.counterexample import Violation
from model.events import event_line
from model.store import Client

pytestmark = pytest.mark.layer("contract")

TIMEOUT_S = 20
DELTAS = ((7, 1, 1), (-3, 2))


async def publish(deltas: tuple[int, ...], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each event once the one before is acknowledged, so that the two sessions take turns."""
    await reader.readline()
    for seq, delta in enumerate(deltas):
        writer.write(event_line(seq, delta))
        await reader.readline()
        await asyncio.sleep(0)
    writer.close()


async def both(client: Client, folder: Path) -> list[object]:
    """What each of the two sessions comes to."""
    servers = [await asyncio.start_server(functools.partial(publish, each), "127.0.0.1", 0) for each in DELTAS]
    sessions = [
        client.run_client(folder / f"{number}.db", "127.0.0.1", server.sockets[0].getsockname()[1], TIMEOUT_S)
        for number, server in enumerate(servers)
    ]
    try:
        return list(await asyncio.gather(*sessions, return_exceptions=True))
    finally:
        for server in servers:
            server.close()


def test_two_receivers_in_one_loop(client: Client, tmp_path: Path, did: Counter[str]) -> None:
    got = asyncio.run(both(client, tmp_path))
    did["sessions"] += len(DELTAS)
    must = [(len(deltas) - 1, sum(deltas)) for deltas in DELTAS]
    if got != must:
        raise Violation(
            f"two calls of run_client in one event loop return {got}, must return {must}",
            [
                "import asyncio, client",
                f"# two publishers, of the events {' and of '.join(map(str, DELTAS))}, each on a port of its own",
                'sessions = [client.run_client(f"{n}.db", "127.0.0.1", port, 20) for n, port in enumerate(ports)]',
                "await asyncio.gather(*sessions)",
            ],
        )
