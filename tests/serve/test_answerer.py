"""On the spot or in batches: the same answers, and the right way for each engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine, build_engine
from searchgym.serve import INLINE_SECONDS, Answerer, HttpError, Settings
from searchgym.serve.metrics import Board
from searchgym.types import Query, Ranking

from .engines import FailingEngine, SlowEngine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Threaded(BM25Engine):
    """BM25 as if it were slow."""

    in_memory = False


class Counting(BM25Engine):
    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        self.calls = [*getattr(self, "calls", []), len(batch)]
        return super().run(batch)


async def test_both_ways_give_the_engines_answers(engine: BM25Engine, corpus: Corpus) -> None:
    quick, batched = Answerer(engine, corpus, Board()), Answerer(Threaded(corpus), corpus, Board())
    assert quick.seconds_per_query is not None
    assert quick.seconds_per_query < INLINE_SECONDS
    assert batched.seconds_per_query is None
    requests = [([f"red note {i}", "boats"], 1 + i % 5) for i in range(40)]
    expected = [engine.search(texts, k) for texts, k in requests]
    for answerer in (quick, batched):
        found = await asyncio.gather(*(answerer.answer(texts, k) for texts, k in requests))
        assert [list(f) for f in found] == expected
        await answerer.close()


async def test_requests_of_one_turn_share_a_call(corpus: Corpus) -> None:
    counting = Counting(corpus)
    answerer = Answerer(counting, corpus, Board())
    counting.calls = []
    await asyncio.gather(*(answerer.answer([f"note {i}"], 3) for i in range(10)))
    assert counting.calls == [10]
    counting.calls = []
    await asyncio.gather(*(answerer.answer(["note"], 3) for _ in range(10)))
    assert counting.calls == [1], "equal queries are asked once"
    await answerer.close()


async def test_large_requests_leave_the_event_loop_alone(corpus: Corpus) -> None:
    counting = Counting(corpus)
    answerer = Answerer(counting, corpus, Board())
    counting.calls = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    many = [f"note {i} " + "boats red blue " * 2000 for i in range(40)]
    await answerer.answer(many, 3)
    ticking.cancel()
    assert sum(counting.calls) == 40
    assert ticks > 20, "other connections were served meanwhile"
    await answerer.close()


async def test_a_cancelled_request_does_not_harm_its_turn(corpus: Corpus) -> None:
    answerer = Answerer(BM25Engine(corpus), corpus, Board())
    tasks = [asyncio.create_task(answerer.answer([f"note {i}"], 1)) for i in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert len(done[0]) == len(done[2]) == 1
    await answerer.close()


async def test_closing_finishes_what_was_accepted(corpus: Corpus) -> None:
    answerer = Answerer(
        SlowEngine(corpus, 0.1), corpus, Board(), Settings(max_in_flight=1, max_batch=2)
    )
    tasks = [asyncio.create_task(answerer.answer([f"boats {i}"], 1)) for i in range(6)]
    await asyncio.sleep(0.02)
    await answerer.close()
    assert all(len(found) == 1 for found in await asyncio.gather(*tasks))


async def test_a_failure_says_which_queries(corpus: Corpus) -> None:
    answerer = Answerer(FailingEngine(corpus), corpus, Board())
    with pytest.raises(HttpError) as caught:
        await answerer.answer(["boats", "timeout", "unavailable"], 1)
    assert caught.value.extra["failed"] == {"1": "timeout", "2": "unavailable"}
    await answerer.close()


async def test_asking_again_is_another_attempt(corpus: Corpus) -> None:
    """Behind the server, too, an outage passes: the same query fails at first, not for ever."""
    spec = {"name": "degraded", "engine": "bm25", "outage": 0.5}
    answerer = Answerer(build_engine(spec, corpus), corpus, Board())
    tries = {}
    for i in range(40):
        for attempt in range(30):
            try:
                await answerer.answer([f"boats note {i}"], 1)
                tries[i] = attempt
                break
            except HttpError:
                continue
    assert len(tries) == 40
    assert 10 <= sum(attempt == 0 for attempt in tries.values()) <= 30
    assert not answerer._tries, "what succeeded is forgotten"
    await answerer.close()
