"""Measuring what other programs have made: rankings and answers, by the metrics used for ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import EvaluationError
from ..scoring import score_answer
from ..scoring.evidence import ndcg_at, precision_at, recall_at, reciprocal_rank
from ..types import Task
from .browsecomp_plus import RunFile
from .intervals import Interval, mean_interval
from .trec import Qrels, Run

Scores = dict[str, Interval]


class RunScores(NamedTuple):
    """Means over the questions that were judged, and how many of those had no ranking."""

    means: Scores
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


def _means(rows: Sequence[Mapping[str, float]]) -> Scores:
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: mean_interval(
            np.array([row.get(name, math.nan) for row in rows]), unit=name != "calls"
        )
        for name in names
    }
