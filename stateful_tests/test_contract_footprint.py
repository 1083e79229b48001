"""A call changes its connection and its file, and nothing else: not the process it runs in, nor what else is there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from model.contract import CLIENT, WORKER
from stateful_tests.visit import publishing, visit

pytestmark = [pytest.mark.layer("contract"), pytest.mark.first]

QUEUE = """\
import worker
hasattr(worker, 'no_such_name')
con1 = worker.open_queue('queue.db')
worker.enqueue(con1, {'id': 'a', 'qty': 5}, 0, 50000, 3)
t1 = worker.claim(con1, 'w', 0, 100)
worker.finish(con1, t1, 'retry', 10, 20)
t2 = worker.claim(con1, 'w', 30, 100)
worker.finish(con1, t2, 'permanent', 40)
worker.finish(con1, t2, 'ok', 50)
worker.redrive(con1, 'a', 60, 50000, 'again')
worker.run_once(con1, 'w', iter((70, 80)).__next__, lambda _: True, 0.5)
worker.enqueue(con1, {'id': 'a', 'qty': 5}, 90, 50000)
with suppress(worker.Conflict): worker.enqueue(con1, {'id': 'a', 'qty': 6}, 90, 50000)
with suppress(ValueError): worker.enqueue(con1, {'id': 'b'}, 90, 50000)
worker.enqueue(con1, {'id': 'b', 'qty': 5}, 100, 50000)
def dies(_): raise worker.Retryable('planted')
with suppress(worker.Retryable): worker.claim(con1, 'w', 110, 100, dies)
worker.run_once(con1, 'w', iter((300, 310)).__next__, dies, 0.5)
con1.close()
worker.run_file('queue.db', 'w', iter((50000, 50010)).__next__, lambda _: True, 0.5)
worker.run_file('queue.db', 'w', iter((60000, 60010)).__next__, lambda _: True, 0.5)
worker.retry_delay(3, 100, 1000, 0.5)
""".splitlines()

STORE = """\
import client
hasattr(client, 'no_such_name')
con1 = client.open_store('store.db')
client.apply_event(con1, 0, 7)
client.apply_event(con1, 0, 7)
with suppress(client.Conflict): client.apply_event(con1, 0, 8)
with suppress(client.Gap): client.apply_event(con1, 9, 7)
with suppress(ValueError): client.apply_event(con1, 1, 1001)
def dies(_): raise KeyError('planted')
with suppress(KeyError): client.apply_event(con1, 1, 5, dies)
client.consume_line(con1, b'EVENT 1 5\\n')
with suppress(client.BadLine): client.consume_line(con1, b'EVENT 1  5\\n')
con1.close()
asyncio.run(client.run_client('store.db', '127.0.0.1', PORT, 5))  # to a publisher that sends event 2
with suppress(KeyError): asyncio.run(client.run_client('store.db', '127.0.0.1', PORT, 5, dies))  # likewise
client.parse_line(b'EVENT 1 5\\n')
client.replay([(0, 7), (1, 5)], 0, 16)
with suppress(client.ResyncRequired): client.replay([(5, 7)], 0, 16)
""".splitlines()


def test_a_queue_leaves_its_process_as_it_was(worker_path: Path, tmp_path: Path, did: Counter[str]) -> None:
    did["calls"] += visit(WORKER, worker_path, QUEUE, tmp_path)


def test_a_receiver_leaves_its_process_as_it_was(client_path: Path, tmp_path: Path, did: Counter[str]) -> None:
    with publishing() as port:
        lines = [line.replace("PORT", str(port)) for line in STORE]
        did["calls"] += visit(CLIENT, client_path, lines, tmp_path)
