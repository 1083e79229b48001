"""retry_delay: double, cap, take the share, round down."""

from __future__ import annotations

import random
import resource

import pytest

from model import lease
from stateful_tests.guard import QueueGuard

pytestmark = pytest.mark.layer("contract")

DELAYS: dict[str, tuple[tuple[int, int, int, float], int]] = {
    "the first attempt waits the base": ((1, 100, 1000, 1.0), 100),
    "the second waits twice as long": ((2, 100, 1000, 1.0), 200),
    "below the cap it doubles": ((4, 100, 1000, 1.0), 800),
    "above the cap it is the cap": ((5, 100, 1000, 1.0), 1000),
    "on the cap it is the cap": ((4, 125, 1000, 1.0), 1000),
    "the cap comes before the share": ((5, 100, 1000, 0.5), 500),
    "the share is rounded down last": ((1, 3, 3, 0.5), 1),
    "rounding is down, not to the nearest": ((1, 1, 1, 0.9999999999999999), 0),
    "binary fractions are as they are": ((1, 100, 1000, 0.29), 28),
    "no share is no delay": ((16, 60_000, 60_000, 0.0), 0),
    "the share may be the int 0": ((3, 100, 1000, 0), 0),
    "the share may be the int 1": ((3, 100, 1000, 1), 400),
    "the smallest share is a share": ((16, 60_000, 60_000, 5e-324), 0),
    "the smallest values": ((1, 1, 1, 1.0), 1),
    "the largest values": ((16, 60_000, 60_000, 1.0), 60_000),
    "the largest attempt on the smallest base": ((16, 1, 60_000, 1.0), 32_768),
    "the cap may equal the base": ((16, 7, 7, 1.0), 7),
}


def check(queue: QueueGuard, arguments: tuple[int, int, int, float], must: int) -> None:
    """The delay, and its type, so that 28.0 and True do not pass for ints."""
    got = queue.call("retry_delay", *arguments)
    queue.expect(type(got) is int and got == must, f"{queue.lines[-1]} returns {got!r}, must return {must}")


@pytest.mark.parametrize("clause", DELAYS)
def test_retry_delay(queue: QueueGuard, clause: str) -> None:
    check(queue, *DELAYS[clause])


def test_retry_delay_is_its_formula(queue: QueueGuard, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - only repeatable
    for _ in range(2000):
        base_ms, attempt = draw.choice((1, 100, 60_000, draw.randint(1, 60_000))), draw.randint(1, 16)
        cap_ms = draw.choice((base_ms, 60_000, draw.randint(base_ms, 60_000)))
        arguments = (attempt, base_ms, cap_ms, draw.choice((0, 1, draw.random())))
        queue.lines.clear()
        check(queue, arguments, lease.retry_delay(*arguments))


def test_retry_delay_leaves_random_numbers_alone(queue: QueueGuard) -> None:
    before = random.getstate()
    delays = {queue.call("retry_delay", 3, 100, 1000, 0.7) for _ in range(20)}
    queue.expect(delays == {280}, f"worker.retry_delay(3, 100, 1000, 0.7) returns {delays}, must return 280 each time")
    queue.expect(random.getstate() == before, "worker.retry_delay(3, 100, 1000, 0.7) draws a random number")


def test_retry_delay_does_not_wait(queue: QueueGuard) -> None:
    """Whoever sleeps gives up the processor by itself; whom a busy machine stops does not."""
    calls, who = 200, getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    before = resource.getrusage(who).ru_nvcsw
    for _ in range(calls):
        queue.worker.retry_delay(1, 1, 1, 1.0)
    waits = resource.getrusage(who).ru_nvcsw - before
    queue.expect(waits < calls // 2, f"worker.retry_delay(1, 1, 1, 1.0) waits {waits} times in {calls} calls, must not")
