"""Engines that behave badly on purpose, for tests of the server; named by import path."""

from __future__ import annotations

import time
from collections.abc import Sequence

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.types import Failure, Query, Ranking


class SlowEngine:
    """BM25 that takes ``seconds`` per call and must therefore be called in batches."""

    needs_task = False

    def __init__(self, corpus: Corpus, seconds: float = 0.05) -> None:
        self.inner, self.seconds = BM25Engine(corpus), seconds
        self.fingerprint = f"slow:{self.inner.fingerprint}"

    def cache_key(self, request: Query, /) -> bytes | None:
        return self.inner.cache_key(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        time.sleep(self.seconds)
        return list(self.inner.run(batch))


class FailingEngine(SlowEngine):
    """Queries fail as their text says: ``timeout``, ``unavailable``, …; ``crash`` raises."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus, 0.0)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        if any(query.text == "crash" for query in batch):
            raise ZeroDivisionError("the engine is broken")
        kinds = ("timeout", "unavailable", "rejected", "bad_response", "cache_miss")
        answers = super().run(batch)
        return [
            Failure(query.text, f"{query.text} on purpose") if query.text in kinds else answer  # type: ignore[arg-type]
            for query, answer in zip(batch, answers, strict=True)
        ]


class NeedyEngine(SlowEngine):
    """An engine that must see the task."""

    needs_task = True
