"""Micro-batches beside whole batches: what it costs that nobody waits for the others.

A simulation with mixed latencies: a call takes a fixed time and a time per query, as encoders do;
episodes think for different times between their searches. Two yardsticks answer the same number of
queries in calls as large as there are episodes: in lockstep, where everybody waits for the slowest
thinker before each call; and the engine alone, which never waits for anybody, a bound that only
an engine whose calls cost little beyond their queries lets micro-batches come near.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median

import pytest

from searchgym.serve import Batcher

from .table import show

pytestmark = pytest.mark.benchmark
EPISODES, SEARCHES, ROUNDS = 128, 12, 5
THINKING_S = (0.0, 0.002, 0.01, 0.03)


class Encoderlike:
    """One call at a time, as long as an encoder on two cores takes."""

    needs_task = False
    fingerprint = "encoderlike"

    def __init__(self, fixed_s: float, each_s: float) -> None:
        self.fixed_s, self.each_s = fixed_s, each_s
        self.calls = 0

    def cache_key(self, request: int) -> bytes | None:
        return None

    def run(self, batch: Sequence[int]) -> list[int]:
        self.calls += 1
        time.sleep(self.fixed_s + self.each_s * len(batch))
        return list(batch)


async def micro(service: Encoderlike) -> float:
    async with Batcher(service, max_batch=EPISODES, max_in_flight=1) as batcher:

        async def episode(number: int) -> None:
            for step in range(SEARCHES):
                assert await batcher.submit(step) == step
                await asyncio.sleep(THINKING_S[(number + step) % len(THINKING_S)])

        start = time.perf_counter()
        await asyncio.gather(*map(episode, range(EPISODES)))
        return time.perf_counter() - start


def whole(service: Encoderlike, thinking_s: float) -> float:
    start = time.perf_counter()
    for _ in range(SEARCHES):
        service.run(list(range(EPISODES)))
        time.sleep(thinking_s)
    return time.perf_counter() - start


@pytest.mark.parametrize(
    ("fixed_s", "each_s", "bound"), [(0.002, 0.001, "alone"), (0.005, 0.0005, "lockstep")]
)
def test_throughput_is_within_a_tenth_of_whole_batches(
    fixed_s: float, each_s: float, bound: str
) -> None:
    rows, ratios = [], []
    for _ in range(ROUNDS):
        service = Encoderlike(fixed_s, each_s)
        ours = asyncio.run(micro(service))
        calls = service.calls
        alone = whole(Encoderlike(fixed_s, each_s), 0.0)
        lockstep = whole(Encoderlike(fixed_s, each_s), max(THINKING_S))
        ratios.append((alone if bound == "alone" else lockstep) / ours)
        rows.append((ours, calls, alone, alone / ours, lockstep, lockstep / ours))
    show(
        f"{EPISODES} episodes × {SEARCHES} searches, a call {fixed_s * 1e3:g} ms + "
        f"{each_s * 1e3:g} ms per query",
        ("micro-batches s", "calls", "engine alone s", "ratio", "lockstep s", "ratio"),
        rows,
    )
    assert median(ratios) >= 0.9
