"""Answers requests: on the event loop itself where the engine takes microseconds, else in batches.

A hop to another thread and back costs more than a BM25 query over some ten thousand passages. So
the engines that answer from memory (``in_memory``) are timed at the start on titles of the corpus,
and requests that will be done within a millisecond are answered on the spot, together with those
that arrived in the same turn of the event loop. All others go through a ``Batcher``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..errors import EngineError
from ..seeding import derive
from ..types import CallContext, Failure, Query, Ranking, SearchEngine
from ..web.middleware import HttpError
from .batcher import Batcher
from .metrics import Board
from .settings import Settings

INLINE_SECONDS = 0.001
"""Longest estimated time for which other connections may be kept waiting."""
_PROBES = 64
_REMEMBERED = 10_000
"""Failed queries of which is known how often they failed; beyond it the oldest starts anew."""
_STATUS = {"timeout": 504, "unavailable": 503, "rejected": 503, "bad_response": 502}


class Answerer:
    """Queries → rankings, or an ``HttpError`` that says which queries failed and why."""

    def __init__(
        self, engine: SearchEngine, corpus: Corpus, board: Board, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        if engine.needs_task:
            raise EngineError(
                f"{type(engine).__name__} must see each question's task, which a client of a "
                "server cannot send; serve another engine"
            )
        self.engine, self._board = engine, board
        self.batcher: Batcher[Query, Ranking] = Batcher(
            engine, max_batch=settings.max_batch, max_wait_s=settings.max_wait_s,
            max_queue=settings.max_queue, max_in_flight=settings.max_in_flight,
            deadline_s=settings.deadline_s, on_batch=lambda size, seconds: board.batch(size),
        )  # fmt: skip
        self.seconds_per_query = time_queries(engine, corpus)
        self._tries: dict[str, int] = {}
        self._turn: list[tuple[list[Query], asyncio.Future[Sequence[Ranking | Failure]]]] = []

    async def answer(self, texts: Sequence[str], k: int) -> Sequence[Ranking]:
        """One ranking per text. Equal requests carry equal random keys, so that an engine with
        noise is as repeatable behind the server as in front of it; one that failed and may be
        asked again is another attempt then (``CallContext.attempt``)."""
        queries = [Query(text, k, _context(text, self._tries.get(text, 0))) for text in texts]
        answers: Sequence[Ranking | Failure]
        if self._quick(texts, k):
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Sequence[Ranking | Failure]] = loop.create_future()
            self._turn.append((queries, future))
            if len(self._turn) == 1:
                loop.call_soon(self._answer_turn)
            answers = await future
        else:
            answers = await self.batcher.submit_many(queries)
        failed = any(isinstance(answer, Failure) for answer in answers)
        if failed or self._tries:
            self._count_tries(texts, answers)
        if failed:
            raise _failed(answers)
        return answers  # type: ignore[return-value]

    async def close(self, timeout_s: float | None = None) -> bool:
        """Answer what was accepted, then stop; whether that took less than ``timeout_s``."""
        return await self.batcher.aclose(timeout_s=timeout_s)

    def _count_tries(self, texts: Sequence[str], answers: Sequence[Ranking | Failure]) -> None:
        """A client that asks again after a failure makes another attempt, as an episode does."""
        for text, answer in zip(texts, answers, strict=True):
            before = self._tries.pop(text, 0)
            if isinstance(answer, Failure) and answer.retryable:
                self._tries[text] = before + 1
                if len(self._tries) > _REMEMBERED:
                    del self._tries[next(iter(self._tries))]

    def _quick(self, texts: Sequence[str], k: int) -> bool:
        cost = self.seconds_per_query
        return cost is not None and is_quick(cost, len(texts), sum(map(len, texts)), k)

    def _answer_turn(self) -> None:
        turn, self._turn = self._turn, []
        queries = [query for asked, _ in turn for query in asked]
        try:
            answers = run_batch(self.engine, queries)
        except Exception as error:
            for _, future in turn:
                if not future.done():
                    future.set_exception(error)
            return
        self._board.batch(len(queries))
        at = 0
        for asked, future in turn:
            if not future.done():
                future.set_result(answers[at : at + len(asked)])
            at += len(asked)


def _context(text: str, attempt: int = 0) -> CallContext:
    return CallContext(derive(0, "serve", text), "", {}, attempt=attempt)


def is_quick(seconds: float, queries: int, chars: int, k: int) -> bool:
    """Return True if queries are answered before others on the event loop would notice.

    Args:
        seconds: Seconds of one short query, as :func:`time_queries` measures them.
        queries: Number of the queries.
        chars: Characters of all of them together.
        k: Hits a query.
    """
    size = queries + chars / 400  # long queries cost by their length
    size *= 1 + k / 100  # and every hit is an object to be made
    return seconds * size < INLINE_SECONDS


def time_queries(engine: Any, corpus: Corpus) -> float | None:
    """Median seconds of one query alone; None for engines that do not answer from memory."""
    if not getattr(engine, "in_memory", False):
        return None
    step = max(1, len(corpus) // _PROBES)
    titles = [corpus[i].title for i in range(0, len(corpus), step)][:_PROBES]
    seconds: list[float] = []
    for _ in range(2):  # the first round warms up caches and compiles
        seconds = []
        for title in titles:
            start = time.perf_counter()
            engine.run([Query(title, 10, _context(title))])
            seconds.append(time.perf_counter() - start)
    return median(seconds)


def _failed(answers: Sequence[Ranking | Failure]) -> HttpError:
    """One reply for all: these dialects have no place for the failure of a single query."""
    failures = {i: answer for i, answer in enumerate(answers) if isinstance(answer, Failure)}
    first = next(iter(failures.values()))
    return HttpError(
        _STATUS.get(first.kind, 500),
        first.kind,
        f"{len(failures)} of {len(answers)} queries failed: {first.message}",
        ((b"retry-after", b"1"),) if first.retryable else (),
        failed={str(i): failure.kind for i, failure in failures.items()},
    )
