"""Micro-batching: what shares a call, who waits for what, and what happens when things go wrong."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.errors import EngineError
from searchgym.serve import Batcher
from searchgym.types import CallContext, Failure, Passage, Query

pytestmark = [pytest.mark.timeout(60), pytest.mark.anyio]
CONTEXT = CallContext(0, "", {})
LONG = 30.0
"""Seconds that are never waited for: a test that reaches them has failed."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Doubler:
    """Answers ``2 * n``; notes every call; ``before`` runs inside each."""

    needs_task = False
    fingerprint = "doubler"

    def __init__(self, before: Callable[[list[int]], None] = lambda batch: None) -> None:
        self.before = before
        self.calls: list[list[int]] = []

    def cache_key(self, request: int) -> bytes | None:
        return None if request < 0 else str(request).encode()

    def run(self, batch: Sequence[int]) -> list[Any]:
        self.calls.append(list(batch))
        self.before(list(batch))
        return [2 * n for n in batch]


class Gate:
    """Holds calls that contain a request of ``slow`` until opened."""

    def __init__(self, *slow: int) -> None:
        self.slow, self.open, self.reached = set(slow), threading.Event(), threading.Event()

    def __call__(self, batch: list[int]) -> None:
        if self.slow & set(batch):
            self.reached.set()
            assert self.open.wait(LONG)


async def held(batcher: Batcher[int, int], gate: Gate, request: int) -> asyncio.Task[Any]:
    """A request whose call has begun and waits at the gate."""
    task = asyncio.create_task(batcher.submit(request))
    await asyncio.to_thread(gate.reached.wait)
    return task


async def until(done: Callable[[], bool]) -> None:
    stop = time.monotonic() + LONG
    while not done():
        assert time.monotonic() < stop, "did not happen"
        await asyncio.sleep(0.001)


async def test_a_lone_request_leaves_at_once() -> None:
    async with Batcher(Doubler(), max_wait_s=LONG) as batcher:
        assert await asyncio.wait_for(batcher.submit(4), LONG / 2) == 8


async def test_requests_that_gather_during_a_call_leave_together() -> None:
    gate = Gate(1)
    service = Doubler(gate)
    async with Batcher(service, max_in_flight=1) as batcher:
        tasks = [await held(batcher, gate, 1)]
        tasks += [asyncio.create_task(batcher.submit(n)) for n in range(2, 12)]
        await until(lambda: batcher.queued == 10)
        gate.open.set()
        assert await asyncio.gather(*tasks) == [2 * n for n in range(1, 12)]
    assert service.calls == [[1], list(range(2, 12))]


async def test_a_full_batch_does_not_wait() -> None:
    gate = Gate(0)
    service = Doubler(gate)
    async with Batcher(service, max_batch=4, max_wait_s=LONG) as batcher:
        first = await held(batcher, gate, 0)
        assert await asyncio.wait_for(batcher.submit_many([1, 2, 3, 4]), LONG / 2) == [2, 4, 6, 8]
        gate.open.set()
        await first
    assert service.calls == [[0], [1, 2, 3, 4]]


async def test_a_batch_leaves_when_its_oldest_request_has_waited() -> None:
    gate = Gate(0)
    service = Doubler(gate)
    async with Batcher(service, max_wait_s=0.05) as batcher:
        first = await held(batcher, gate, 0)
        start = time.monotonic()
        assert await batcher.submit_many([1, 2]) == [2, 4]  # while the first call still runs
        assert 0.045 <= time.monotonic() - start < LONG / 2
        gate.open.set()
        await first
    assert service.calls == [[0], [1, 2]]


async def test_equal_requests_are_asked_once_also_while_the_call_runs() -> None:
    gate = Gate(7)
    service = Doubler(gate)
    async with Batcher(service) as batcher:
        tasks = [asyncio.create_task(batcher.submit(7)) for _ in range(5)]
        await asyncio.to_thread(gate.reached.wait)
        tasks += [asyncio.create_task(batcher.submit(7)) for _ in range(5)]
        await asyncio.sleep(0.02)
        gate.open.set()
        assert await asyncio.gather(*tasks) == [14] * 10
        assert await batcher.submit(7) == 14
    assert service.calls == [[7], [7]], "one call for ten callers, and a new one afterwards"


async def test_requests_without_a_key_are_never_shared() -> None:
    service = Doubler()
    async with Batcher(service) as batcher:
        assert await batcher.submit_many([-1, -1, -1]) == [-2, -2, -2]
    assert sum(map(len, service.calls)) == 3


async def test_no_episode_waits_for_a_batch_it_is_not_in() -> None:
    """Sixteen episodes search twenty times each; three searches hang. Everybody who shares no call
    with them gets to the end while they hang."""
    gate = Gate(305, 911, 1403)
    service = Doubler(gate)
    ended: set[int] = set()

    async def episode(number: int, batcher: Batcher[int, int]) -> None:
        for step in range(20):
            request = number * 100 + step
            assert await batcher.submit(request) == 2 * request
            await asyncio.sleep(0.001 * (number % 4))
        ended.add(number)

    async with Batcher(service, max_batch=3, max_wait_s=0.002, max_in_flight=5) as batcher:
        tasks = [asyncio.create_task(episode(n, batcher)) for n in range(16)]

        def waiting() -> set[int]:
            calls = [call for call in list(service.calls) if gate.slow & set(call)]
            return {request // 100 for call in calls for request in call}

        await until(lambda: {3, 9, 14} <= waiting() and len(ended | waiting()) == 16)
        assert len(waiting()) <= 9
        assert not ended & {3, 9, 14}
        gate.open.set()
        await asyncio.gather(*tasks)
    assert ended == set(range(16))


async def test_a_deadline_answers_late_requests_with_a_failure() -> None:
    gate = Gate(1)
    service = Doubler(gate)
    async with Batcher(service, max_in_flight=1, deadline_s=0.1) as batcher:
        start = time.monotonic()
        running = await held(batcher, gate, 1)
        queued = asyncio.create_task(batcher.submit(2))
        answers = await asyncio.gather(running, queued)
        assert time.monotonic() - start < LONG / 2
        for answer in answers:
            assert isinstance(answer, Failure)
            assert answer.kind == "timeout"
            assert answer.retryable
        assert batcher.queued == 0, "nobody waits for it, so it is not asked"
        gate.open.set()
        batcher.deadline_s = LONG
        assert await batcher.submit(3) == 6
    assert service.calls == [[1], [3]]


async def test_a_deadline_keeps_the_answers_that_are_there() -> None:
    gate = Gate(2)
    async with Batcher(Doubler(gate), max_batch=1, max_in_flight=2, deadline_s=0.3) as batcher:
        answers = await batcher.submit_many([1, 2])
        gate.open.set()
    assert answers[0] == 2
    assert isinstance(answers[1], Failure)


async def test_cancelling_withdraws_a_request_and_leaves_its_twin_alone() -> None:
    gate = Gate(1)
    service = Doubler(gate)
    async with Batcher(service, max_in_flight=1) as batcher:
        running = await held(batcher, gate, 1)
        alone = asyncio.create_task(batcher.submit(2))
        twins = [asyncio.create_task(batcher.submit(3)) for _ in range(2)]
        await until(lambda: batcher.queued == 2)
        alone.cancel()
        twins[0].cancel()
        running.cancel()
        await asyncio.wait([alone, running, twins[0]])
        assert alone.cancelled()
        assert batcher.queued == 1
        gate.open.set()
        assert await twins[1] == 6
    assert service.calls == [[1], [3]]


async def test_failures_are_per_item() -> None:
    class Picky(Doubler):
        def run(self, batch: Sequence[int]) -> list[Any]:
            answers = super().run(batch)
            return [Failure("unavailable", "no") if n % 2 else a for n, a in zip(batch, answers)]  # noqa: B905

    async with Batcher(Picky()) as batcher:
        answers = await batcher.submit_many([1, 2, 3, 4])
    assert [isinstance(a, Failure) for a in answers] == [True, False, True, False]


@pytest.mark.parametrize("fault", ["raises", "too few"])
async def test_a_crash_reaches_everybody_in_the_call_and_nobody_else(fault: str) -> None:
    class Breaking(Doubler):
        def run(self, batch: Sequence[int]) -> list[Any]:
            answers = super().run(batch)
            if 13 in batch:
                if fault == "too few":
                    return answers[:-1]
                raise ZeroDivisionError("broken")
            return answers

    service = Breaking()
    async with Batcher(service, max_batch=8, max_in_flight=1) as batcher:
        group = batcher.submit_many(list(range(10, 18)))
        found = await asyncio.gather(group, batcher.submit(99), return_exceptions=True)
        assert isinstance(found[0], EngineError)
        assert ("ZeroDivisionError" if fault == "raises" else "answers for") in str(found[0])
        assert found[0].__cause__ is not None
        assert found[1] == 198
        assert await batcher.submit(5) == 10, "the next call is tried anew"
        with pytest.raises(EngineError):
            await batcher.submit(13)


async def test_an_outage_of_the_service_is_a_failure_not_a_crash() -> None:
    def down(batch: list[int]) -> None:
        raise ConnectionError("no route")

    async with Batcher(Doubler(down)) as batcher:
        assert await batcher.submit(1) == Failure("unavailable", "no route")


async def test_a_full_queue_rejects() -> None:
    gate = Gate(0)
    service = Doubler(gate)
    async with Batcher(service, max_queue=3, max_batch=2, max_in_flight=1) as batcher:
        tasks = [await held(batcher, gate, 0)]
        tasks += [asyncio.create_task(batcher.submit(n)) for n in range(1, 4)]
        await until(lambda: batcher.queued == 3)
        refused = await batcher.submit(50)
        assert isinstance(refused, Failure)
        assert refused.kind == "rejected"
        assert refused.retryable
        gate.open.set()
        assert await asyncio.gather(*tasks) == [0, 2, 4, 6]
        # more than the queue holds enter an empty one: else they never would
        assert await batcher.submit_many(list(range(20, 40))) == list(range(40, 80, 2))
    assert 50 not in {request for call in service.calls for request in call}


async def test_closing_answers_what_is_queued() -> None:
    gate = Gate(0)
    batcher = Batcher(Doubler(gate), max_in_flight=1, max_batch=2)
    tasks = [await held(batcher, gate, 0)]
    tasks += [asyncio.create_task(batcher.submit(n)) for n in range(1, 9)]
    await until(lambda: batcher.queued == 8)
    closing = asyncio.create_task(batcher.aclose())
    await asyncio.sleep(0.02)
    with pytest.raises(EngineError, match="closed"):
        await batcher.submit(77)
    gate.open.set()
    assert await closing
    assert await asyncio.gather(*tasks) == [2 * n for n in range(9)]
    assert await batcher.aclose()
    await until(lambda: not any(t.name == "search-batcher" for t in threading.enumerate()))


async def test_a_batch_observer_sees_every_call() -> None:
    seen: list[int] = []
    service = Doubler()
    async with Batcher(
        service, on_batch=lambda size, seconds: seen.append(size), max_batch=3
    ) as batcher:
        await batcher.submit_many(list(range(10)))
    assert seen == [len(call) for call in service.calls]
    assert sum(seen) == 10


async def test_nothing_asked_nothing_done() -> None:
    service = Doubler()
    async with Batcher(service) as batcher:
        assert await batcher.submit_many([]) == []
    assert service.calls == []


def test_impossible_sizes_are_refused() -> None:
    for wrong in ({"max_batch": 0}, {"max_queue": 0}, {"max_in_flight": 0}, {"max_wait_s": -1}):
        with pytest.raises(EngineError, match=next(iter(wrong))):
            Batcher(Doubler(), **wrong)  # type: ignore[arg-type]


async def test_an_engine_answers_the_same_through_a_batcher() -> None:
    words = "red green blue amber violet".split()
    passages = [
        Passage(str(i), words[i % 5], f"{words[i % 5]} {words[(i * 7) % 5]} number {i}", f"u{i}")
        for i in range(60)
    ]
    engine = BM25Engine(Corpus("c", passages))
    queries = [Query(f"{a} {b}", 1 + i % 4, CONTEXT) for a in words for i, b in enumerate(words)]
    async with Batcher(engine, max_batch=4) as batcher:
        found = await asyncio.gather(*(batcher.submit(query) for query in queries))
    assert found == [engine.run([query])[0] for query in queries]


async def test_closing_does_not_wait_for_ever_for_a_call_that_hangs() -> None:
    gate = Gate(1)
    batcher = Batcher(Doubler(gate))
    asked = await held(batcher, gate, 1)
    assert not await batcher.aclose(timeout_s=0.05)
    gate.open.set()
    assert await batcher.aclose(timeout_s=LONG)
    assert await asked == 2
