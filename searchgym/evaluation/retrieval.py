"""Retrieval alone: an engine over queries and judgements, by nDCG, recall, MRR and precision; and
rankings and answers that other programs have made, by the same measures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..batching import run_batch
from ..corpora.beir import Topics
from ..errors import EngineError, EvaluationError
from ..scoring import score_answer
from ..scoring.evidence import ndcg_at, precision_at, recall_at, reciprocal_rank
from ..seeding import derive
from ..types import CallContext, Failure, Query, SearchEngine, Task
from .differences import paired_interval
from .formats import Qrels, Run, RunFile, in_order
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
    """Query id → (passage id, score), in trec_eval's order."""
    per_query: Mapping[str, Mapping[str, float]]
    """Query id → measure → value, of the judged queries that have a relevant passage."""
    seconds: float
    own: int = 0
    """Number of queries whose own passage was found and left out (``keep_own``)."""

    @property
    def means(self) -> dict[str, Interval]:
        """Mean of every measure over the queries, with its 95 % interval."""
        names = next(iter(self.per_query.values()))
        return {
            name: mean_interval(np.array([row[name] for row in self.per_query.values()]), unit=True)
            for name in names
        }


def measure_retrieval(
    topics: Topics,
    engine: SearchEngine,
    *,
    k: int = 100,
    keep_own: bool = False,
    progress: Progress | None = None,
) -> Retrieval:
    """Search for every judged query and measure the rankings as trec_eval does: equal scores are
    ordered by descending id, whatever the engine's order.

    Args:
        topics: Passages, queries and judgements; a query without a relevant passage is left out.
        engine: Searches the passages.
        k: Passages per query. nDCG, MRR and precision count the first 10 (or ``k``, if fewer).
        keep_own: Rank a passage for the query that has its id, too. Where queries are passages
            (ArguAna, Quora), BEIR leaves it out; here it is, unless it is judged relevant.
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
    left_out = 0
    start = time.perf_counter()
    for at in range(0, len(judged), _AT_ONCE):
        some = judged[at : at + _AT_ONCE]
        own = [not keep_own and q in topics.corpus and topics.qrels[q].get(q, 0) <= 0 for q in some]
        batch = [
            Query(topics.queries[q], k + out, CallContext(derive(0, "rank", q), q, {}))
            for q, out in zip(some, own, strict=True)
        ]
        for query, out, ranking in zip(some, own, run_batch(engine, batch), strict=True):
            if isinstance(ranking, Failure):
                raise EngineError(f"query {query!r} failed ({ranking.kind}): {ranking.message}")
            hits = [  # with scores as trec_eval reads them
                (hit.passage.id, float(np.float32(hit.score)))
                for hit in ranking
                if not (out and hit.passage.id == query)
            ]
            run[query] = in_order(hits[:k])
            left_out += len(hits) < len(ranking)
        if progress is not None:
            progress(len(some))
    seconds = time.perf_counter() - start
    rows = {q: _measures([key for key, _ in run[q]], topics.qrels[q], k) for q in judged}
    return Retrieval(topics.corpus.name, engine.fingerprint, k, run, rows, seconds, left_out)


def differences(a: Retrieval, b: Retrieval) -> dict[str, Interval]:
    """Mean of every measure of ``a`` less that of ``b``, query by query, with 95 % intervals."""
    return {
        name: paired_interval(
            [row[name] for row in a.per_query.values()],
            [b.per_query[query][name] for query in a.per_query],
        )
        for name in a.means
    }


def _measures(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> dict[str, float]:
    gold = [key for key, grade in grades.items() if grade > 0]
    top = min(k, 10)
    measures = {f"nDCG@{top}": ndcg_at(ranked, grades, top)}
    measures |= {f"recall@{n}": recall_at(ranked, gold, n) for n in sorted({top, k})}
    measures[f"MRR@{top}"] = reciprocal_rank(ranked, gold, top)
    return {**measures, f"P@{top}": precision_at(ranked, gold, top)}


# --- made by other programs ---------------------------------------------------------------------
class RunScores(NamedTuple):
    """Means over the questions that were judged, and how many of those had no ranking."""

    means: dict[str, Interval]
    questions: int
    missing: int
    """Number of judged questions that the run lacks; they score 0."""


def score_run(run: Run, qrels: Qrels, k: int | None = None) -> RunScores:
    """Recall, precision, MRR and nDCG of rankings, cut after ``k`` passages, with 95 % intervals
    over the judged questions that have a relevant passage.

    Raises:
        EvaluationError: no question of the run is judged.
    """
    judged = {q: grades for q, grades in qrels.items() if any(g > 0 for g in grades.values())}
    if not judged.keys() & run.keys():
        raise EvaluationError(
            f"none of the run's {len(run)} questions is among the {len(judged)} judged ones; are "
            "the ids the same?"
        )
    rows = []
    for query, grades in judged.items():
        shown = [key for key, _ in run.get(query, ())][:k]
        rows.append(_evidence(shown, {key: g for key, g in grades.items() if g > 0}))
    return RunScores(_means(rows), len(judged), len(judged.keys() - run.keys()))


def score_runs(runs: Iterable[RunFile], tasks: Sequence[Task]) -> RunScores:
    """Answers by EM, F1 and cover-EM, and what was retrieved against the evidence, over all of
    ``tasks``; questions without a run file score 0.

    Raises:
        EvaluationError: no run file answers one of the tasks.
    """
    by_query = {run.query_id: run for run in runs}
    if not by_query.keys() & {task.id for task in tasks}:
        raise EvaluationError(
            f"none of the {len(by_query)} run files answers one of the {len(tasks)} tasks; are the "
            "ids the same?"
        )
    rows = []
    for task in tasks:
        run = by_query.get(task.id, RunFile(task.id, "", (), {}, False))
        answer = score_answer(task, run.answer)
        gold = dict.fromkeys(task.evidence, 1)
        evidence = _evidence(run.retrieved, gold) if gold else {}
        calls = float(sum(run.calls.values()))
        rows.append({**answer, **evidence, "calls": calls, "completed": float(run.completed)})
    missing = sum(task.id not in by_query for task in tasks)
    return RunScores(_means(rows), len(tasks), missing)


def _evidence(shown: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    return {
        "evidence_recall": recall_at(shown, grades),
        "evidence_precision": precision_at(shown, grades),
        "evidence_mrr": reciprocal_rank(shown, grades),
        "evidence_ndcg": ndcg_at(shown, grades),
    }


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: mean_interval(
            np.array([row.get(name, math.nan) for row in rows]), unit=name != "calls"
        )
        for name in names
    }
