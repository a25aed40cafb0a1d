"""Summaries of rows beyond means: pass@k and Avg@k of several samples, what searches buy, the
Pareto front, and what the infrastructure cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import EvaluationError
from .intervals import RESAMPLES, Interval, mean_interval
from .metrics import METRICS, Row, column, infra_by_searches


# --- several samples of a question ------------------------------------------------------------
def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples is right, estimated from n samples, c of them right.

    1 − C(n−c, k) / C(n, k), the unbiased estimator of Chen et al. (2021, arXiv 2107.03374), as the
    product over i = n−c+1 … n of (1 − k/i): no large binomials, no overflow.

    Raises:
        EvaluationError: unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    if not (1 <= k <= n and 0 <= c <= n):
        raise EvaluationError(f"pass@k needs 1 ≤ k ≤ n and 0 ≤ c ≤ n, got n={n}, c={c}, k={k}")
    return 1.0 if n - c < k else 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def pass_at(
    rows: Sequence[Row], ks: Sequence[int] = (1,), metric: str = "em", *, seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[int, Interval]:  # fmt: skip
    """pass@k with its 95 % interval over questions, for each k.

    The samples of a question are its rows, from as many evaluations as one likes; a sample is
    right if ``metric`` is 1. Samples lost to the infrastructure do not count; a question that has
    fewer than k left because of them is left out of that mean (its ``n`` says so).

    Raises:
        EvaluationError: a question was sampled fewer than k times.
    """
    groups = by_question(rows, metric)
    out: dict[int, Interval] = {}
    for k in ks:
        estimates = [
            pass_at_k(len(known), sum(s >= 1.0 for s in known), k) if len(known) >= k else np.nan
            for known in _known(groups, k, "pass")
        ]
        out[k] = mean_interval(np.array(estimates), seed=seed, resamples=resamples, unit=True)
    return out


def avg_at(
    rows: Sequence[Row], k: int, metric: str = "em", *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Avg@k with its 95 % interval over questions: the mean of k samples' mean metric.

    The samples of a question are its first k rows (ASearcher reports Avg@4). The interval resamples
    questions with all their samples, which are not independent of each other. Samples lost to the
    infrastructure do not count; a question that lost all of its k is left out (``n`` says so).

    Raises:
        EvaluationError: a question was sampled fewer than k times, or k < 1.
    """
    first = {
        task_id: samples[: max(k, 0)] for task_id, samples in by_question(rows, metric).items()
    }
    means = [np.mean(s) if s else np.nan for s in _known(first, k, "Avg")]
    unit = METRICS.get(metric, False)  # not known of a reward's own part
    return mean_interval(np.array(means), seed=seed, resamples=resamples, unit=unit)


def by_question(rows: Sequence[Row], metric: str) -> dict[str, list[float]]:
    """A metric's values by question, in the order of ``rows``; NaN where a sample was lost."""
    groups: dict[str, list[float]] = {}
    for row, value in zip(rows, column(rows, metric), strict=True):
        groups.setdefault(row.task_id, []).append(float(value))
    return groups


def _known(groups: Mapping[str, list[float]], k: int, name: str) -> Iterator[list[float]]:
    """The samples of each question that were not lost; refuses questions asked too seldom."""
    if k < 1:
        raise EvaluationError(f"{name}@k needs k ≥ 1, got {k}")
    for task_id, samples in groups.items():
        if len(samples) < k:
            raise EvaluationError(
                f"{name}@{k} needs {k} samples of each question, {task_id!r} has {len(samples)}"
            )
        yield [s for s in samples if not np.isnan(s)]


# --- accuracy against searches ----------------------------------------------------------------
class Point(NamedTuple):
    """An agent in the plane of mean cost (searches, dollars, tokens) and mean score."""

    name: str
    cost: float
    score: float


def point(name: str, rows: Sequence[Row], metric: str = "f1", cost: str = "searches") -> Point:
    """Mean cost and score of an agent over the questions that were not lost."""
    return Point(
        name, float(np.nanmean(column(rows, cost))), float(np.nanmean(column(rows, metric)))
    )


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other dominates (no dearer and no worse, and not equal in both), by
    ascending cost. Equal points stay together. Points with NaN are left out."""
    out: list[Point] = []
    for p in sorted((p for p in points if p.cost == p.cost), key=lambda p: (p.cost, -p.score)):
        if p.score > (out[-1].score if out else -math.inf) or (out and p[1:] == out[-1][1:]):
            out.append(p)
    return out


def within(
    rows: Sequence[Row], budgets: Sequence[int], metric: str = "em", *, seed: int = 0
) -> dict[int, Interval]:
    """Searches allowed → mean metric if an episode that searched more had scored 0, for every
    budget: a lower bound of what the agent would do under it, of which it was not told."""
    values, searches = column(rows, metric), column(rows, "searches")
    return {
        budget: mean_interval(
            np.where(searches > budget, 0.0, values), seed=seed, unit=metric != "searches"
        )
        for budget in budgets
    }


# --- episodes lost to the infrastructure ------------------------------------------------------
class Lost(NamedTuple):
    """Outcome of the n-th search. Agents that search more meet more outages: leaving the lost
    episodes out tilts means towards agents that search less, so they are counted."""

    searches: int
    reached: int
    """Episodes that ran at least so many searches."""
    lost: int
    """Episodes that ended there because the infrastructure failed."""
    share: float
    """``lost / reached``."""
    expected: float
    """Failure rate of single tries, over all rows, to the power of the tries a call has."""


def lost_by_searches(rows: Sequence[Row], max_retries: int) -> list[Lost]:
    """One entry per number of searches from 1, ascending; empty without searches.

    The share speaks of that search alone, so it stays level however many searches went before;
    ``expected`` holds for failures that strike tries independently. ``max_retries``: the rules'.
    """
    counts = infra_by_searches(rows)
    expected = failure_rate(rows) ** (max_retries + 1)
    reached = sum(ended for n, (_, ended) in counts.items() if n)
    out = []
    for n in range(1, max(counts, default=0) + 1):
        lost, ended = counts.get(n, (0, 0))
        out.append(Lost(n, reached, lost, lost / reached, expected))
        reached -= ended
    return out


def failure_rate(rows: Sequence[Row]) -> float:
    """Share of the tries of search calls that failed; NaN without searches.

    Every failure was retried or ended its episode, so failures = retries + lost episodes and
    tries = searches + retries. (Opened pages are not told apart; with them this is an estimate.)
    """
    retries = sum(row.retries for row in rows)
    tries = sum(row.searches for row in rows) + retries
    failures = retries + sum(row.infra_error for row in rows)
    return failures / tries if tries else math.nan
