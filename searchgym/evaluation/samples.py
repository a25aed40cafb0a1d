"""Several samples of the same questions: pass@k (is one of k right?) and Avg@k (how many are?)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import EvaluationError
from .intervals import RESAMPLES, Interval, mean_interval
from .metrics import METRICS, Row, column


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples is right, estimated from n samples, c of them right.

    1 − C(n−c, k) / C(n, k), the unbiased estimator of Chen et al. (2021, arXiv 2107.03374), as the
    product over i = n−c+1 … n of (1 − k/i): no large binomials, no overflow.

    Raises:
        EvaluationError: unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    if not (1 <= k <= n and 0 <= c <= n):
        raise EvaluationError(f"pass@k needs 1 ≤ k ≤ n and 0 ≤ c ≤ n, got n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    miss = 1.0
    for i in range(n - c + 1, n + 1):
        miss *= 1.0 - k / i
    return 1.0 - miss


def pass_at(
    rows: Sequence[Row],
    ks: Sequence[int] = (1,),
    metric: str = "em",
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[int, Interval]:
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
        if k < 1:
            raise EvaluationError(f"pass@k needs k ≥ 1, got {k}")
        estimates: list[float] = []
        for known in _known(groups, k, f"pass@{k}"):
            right = sum(s >= 1.0 for s in known)
            estimates.append(pass_at_k(len(known), right, k) if len(known) >= k else np.nan)
        out[k] = mean_interval(np.array(estimates), seed=seed, resamples=resamples, unit=True)
    return out


def avg_at(
    rows: Sequence[Row],
    k: int,
    metric: str = "em",
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Avg@k with its 95 % interval over questions: the mean of k samples' mean metric.

    The samples of a question are its first k rows (ASearcher reports Avg@4). The interval resamples
    questions with all their samples, which are not independent of each other. Samples lost to the
    infrastructure do not count; a question that lost all of its k is left out (``n`` says so).

    Raises:
        EvaluationError: a question was sampled fewer than k times, or k < 1.
    """
    if k < 1:
        raise EvaluationError(f"Avg@k needs k ≥ 1, got {k}")
    first = {task_id: samples[:k] for task_id, samples in by_question(rows, metric).items()}
    means = [np.mean(s) if s else np.nan for s in _known(first, k, f"Avg@{k}")]
    unit = METRICS.get(metric, False)  # not known of a reward's own part
    return mean_interval(np.array(means), seed=seed, resamples=resamples, unit=unit)


def by_question(rows: Sequence[Row], metric: str) -> dict[str, list[float]]:
    """A metric's values by question, in the order of ``rows``; NaN where a sample was lost."""
    groups: dict[str, list[float]] = {}
    for row, value in zip(rows, column(rows, metric), strict=True):
        groups.setdefault(row.task_id, []).append(float(value))
    return groups


def _known(groups: dict[str, list[float]], k: int, what: str) -> Iterator[list[float]]:
    """The samples of each question that were not lost; refuses questions asked too seldom."""
    for task_id, samples in groups.items():
        if len(samples) < k:
            raise EvaluationError(
                f"{what} needs {k} samples of each question, {task_id!r} has {len(samples)}"
            )
        yield [s for s in samples if not np.isnan(s)]
