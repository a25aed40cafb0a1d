"""Retrieval alone: an engine over queries and judgements, by nDCG, recall, MRR and precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..batching import run_batch
from ..corpora.beir import Topics
from ..errors import EngineError, EvaluationError
from ..scoring.evidence import ndcg_at, precision_at, recall_at, reciprocal_rank
from ..seeding import derive
from ..types import CallContext, Failure, Query, SearchEngine
from .intervals import Interval, mean_interval

Progress = Callable[[int], object]
_AT_ONCE = 64
MEASURES = ("nDCG@10", "recall@10", "recall@100", "MRR@10", "P@10")
"""Keys of ``measure_retrieval`` where 100 passages are asked for."""


@dataclass(frozen=True)
class Retrieval:
    """Rankings of an engine and their measures."""

    corpus: str
    engine: str
    """Fingerprint."""
    k: int
    run: Mapping[str, Sequence[tuple[str, float]]]
    """Query id → (passage id, score), best first."""
    per_query: Mapping[str, Mapping[str, float]]
    """Query id → measure → value, of the judged queries that have a relevant passage."""
    seconds: float

    @property
    def means(self) -> dict[str, Interval]:
        """Mean of every measure over the queries, with its 95 % interval."""
        names = next(iter(self.per_query.values()))
        return {
            name: mean_interval(np.array([row[name] for row in self.per_query.values()]), unit=True)
            for name in names
        }


def measure_retrieval(
    topics: Topics, engine: SearchEngine, *, k: int = 100, progress: Progress | None = None
) -> Retrieval:
    """Search for every judged query and measure the rankings as trec_eval does.

    Args:
        topics: Passages, queries and judgements; a query without a relevant passage is left out.
        engine: Searches the passages.
        k: Passages per query. nDCG, MRR and precision count the first 10 (or ``k``, if fewer).
        progress: Told how many queries have been answered.

    Raises:
        EngineError: a query failed, or the engine needs a question's task.
        EvaluationError: no query has a relevant passage.
    """
    if engine.needs_task:
        raise EngineError(f"{engine.fingerprint!r} is told the answers: it cannot be measured so")
    judged = [q for q, grades in topics.qrels.items() if any(g > 0 for g in grades.values())]
    if not judged:
        raise EvaluationError("no query has a relevant passage: there is nothing to measure")
    run: dict[str, list[tuple[str, float]]] = {}
    start = time.perf_counter()
    for at in range(0, len(judged), _AT_ONCE):
        some = judged[at : at + _AT_ONCE]
        batch = [
            Query(topics.queries[q], k, CallContext(derive(0, "rank", q), q, {})) for q in some
        ]
        for query, ranking in zip(some, run_batch(engine, batch), strict=True):
            if isinstance(ranking, Failure):
                raise EngineError(f"query {query!r} failed ({ranking.kind}): {ranking.message}")
            run[query] = [(hit.passage.id, hit.score) for hit in ranking]
        if progress is not None:
            progress(len(some))
    seconds = time.perf_counter() - start
    rows = {q: _measures([key for key, _ in run[q]], topics.qrels[q], k) for q in judged}
    return Retrieval(topics.corpus.name, engine.fingerprint, k, run, rows, seconds)


def _measures(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> dict[str, float]:
    gold = [key for key, grade in grades.items() if grade > 0]
    top = min(k, 10)
    measures = {f"nDCG@{top}": ndcg_at(ranked, grades, top)}
    measures |= {f"recall@{n}": recall_at(ranked, gold, n) for n in sorted({top, k})}
    measures[f"MRR@{top}"] = reciprocal_rank(ranked, gold, top)
    return {**measures, f"P@{top}": precision_at(ranked, gold, top)}
