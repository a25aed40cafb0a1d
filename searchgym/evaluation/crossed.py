"""Means over training seeds × questions: what other seeds and other questions would have given.

Every seed answers the same questions, so the table is a two-way layout without replication. Its
mean squares (of seeds, of questions, of what is left) say how much each contributes to the variance
of the grand mean. Questions are many and are resampled; seeds are few, and three numbers
resampled are far too alike, so the seeds' share is drawn from Student's t with S - 1 degrees of
freedom, scaled by its variance component. What is left over (a seed was lucky with a question)
stands in both mean squares but counts once, so it is taken off them, off each in part
(``COUNTED``). Resampling questions alone covers 0.85 to 0.89 instead of 0.95 with three seeds that
differ by 2 to 4 points; ``tests/benchmarks/test_statistics.py`` measures these here.

Hillis, "A comparison of denominator degrees of freedom methods for multiple observer ROC analysis",
Statistics in Medicine 26 (2007), for the components; Owen, "The pigeonhole bootstrap" (2007), for
resampling both ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import EvaluationError
from ..seeding import stream
from .intervals import (
    CHUNK,
    FEW,
    NOTHING,
    RESAMPLES,
    Floats,
    Interval,
    few_differ,
    mean_interval,
    score_interval,
    sign_flip_p,
)

FEW_OF_SEVERAL = 5
"""Counterpart of ``intervals.FEW`` for means over several seeds, whose own share widens the
interval: where 20 to 58 questions differ in 3 to 10 % of all cases, three seeds cover 0.81 to 0.94
without Tango's interval, 0.96 or more with it below five questions, and need not be wider above."""


COUNTED = 0.6
"""Share of the rest that is taken off the seeds' mean square, not the questions'. Ours: with 1 the
intervals of three seeds that differ by 4 to 7 points cover 0.93 to 0.94, with 0 equal ones 0.97."""


class Spread(NamedTuple):
    """Mean squares of a table (S, Q), each an expectation of Q·seeds or S·questions + rest."""

    seeds: float
    questions: float
    rest: float


def spread(table: Floats) -> Spread:
    """Mean squares of seeds, questions and what neither explains, for S ≥ 2 and Q ≥ 2."""
    seeds, n = table.shape
    rows, columns, mean = table.mean(axis=1), table.mean(axis=0), table.mean()
    rest = table - rows[:, None] - columns[None, :] + mean
    return Spread(
        float(n * rows.var(ddof=1)),
        float(seeds * columns.var(ddof=1)),
        float((rest**2).sum() / ((seeds - 1) * (n - 1))),
    )


def crossed_interval(
    table: ArrayLike,
    *,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    unit: bool = False,
    bound: float | None = None,
) -> Interval:
    """Interval for the mean of ``table`` (S, Q), S training seeds on the same Q questions.

    Speaks of other seeds and other questions; with S = 1 only questions vary. Questions with a NaN
    in any seed are left out. ``unit``: as in
    :func:`searchgym.evaluation.intervals.mean_interval`.

    For paired differences hand in ``a - b`` and the ``bound`` that none can exceed in size (1 for
    EM or F1, None: there is none): where few questions differ, Tango's score interval then counts
    as well, for a bootstrap would know of no others.

    Raises:
        EvaluationError: values beyond ``bound``, or outside [0, 1] with ``unit``.
    """
    d = _complete(table)
    seeds, n = d.shape
    if n == 0:
        return NOTHING
    if unit and (d.min() < 0 or d.max() > 1):
        raise EvaluationError(f"unit values must lie in [0, 1], got {d.min()} to {d.max()}")
    if bound is not None and np.abs(d).max() > bound + 1e-9:
        raise EvaluationError(f"differences must lie within ±{bound}, got {d.min()} to {d.max()}")
    if bound is not None and few_differ(d.mean(axis=0), FEW if seeds == 1 else FEW_OF_SEVERAL):
        score = score_interval(d.mean(axis=0), bound, level=level)
        if seeds == 1 or n == 1 or d.min() == d.max():
            return score
        wide = crossed_interval(d, seed=seed, level=level, resamples=resamples)
        # seeds that differ widen it, too
        ends = min(score.low, wide.low), max(score.high, wide.high)
        return Interval(score.mean, *ends, n, f"tango, {wide.method}")
    if seeds == 1 or n == 1 or d.min() == d.max():
        # equal values: what mean_interval says of each question, not more for being repeated
        return mean_interval(d.mean(axis=0), seed=seed, level=level, resamples=resamples, unit=unit)
    drawn = _draws(d, COUNTED, seed, resamples)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    if high - low < 1e-12:  # seeds and questions differ, their means do not
        return mean_interval(d.mean(axis=0), seed=seed, level=level, resamples=resamples, unit=unit)
    if unit:
        low, high = max(0.0, low), min(1.0, high)
    return Interval(float(d.mean()), float(low), float(high), n, f"crossed over {seeds} seeds")


def crossed_p(difference: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of "no difference, whatever the seeds and questions", from paired
    differences (S, Q).

    One seed: sign flips over questions. Several: as :func:`crossed_interval`, but with all that
    seeds differ by counted as theirs, so that chance finds no difference more often than it says.
    """
    d = _complete(difference)
    seeds, n = d.shape
    if seeds == 1 or n < 2 or d.min() == d.max():
        return sign_flip_p(d.mean(axis=0), seed=seed, resamples=resamples)
    drawn = _draws(d, 0.0, seed, resamples)
    beyond = np.abs(drawn - d.mean()) >= abs(d.mean()) - 1e-12
    return float((1 + beyond.sum()) / (1 + resamples))


def _draws(d: Floats, counted: float, seed: int, resamples: int) -> Floats:
    """Grand means (B,) of other seeds and questions: questions resampled, plus Student's t for the
    seeds. The share ``counted`` of the rest is taken off the seeds' mean square, the others off the
    questions'."""
    seeds, n = d.shape
    spreads = spread(d)
    of_seeds = max(0.0, spreads.seeds - counted * spreads.rest)
    kept = 1 - (1 - counted) * spreads.rest / spreads.questions if spreads.questions else 0.0
    scale = float(np.sqrt(max(0.0, kept)))
    rng = stream(seed, "crossed", seeds, n)
    # only how often each distinct mean is drawn matters, see ``intervals``
    values, counts = np.unique(d.mean(axis=0), return_counts=True)
    mean = d.mean()
    drawn = np.empty(resamples)
    rows = max(1, CHUNK // len(values))
    for at in range(0, resamples, rows):
        size = min(rows, resamples - at)
        drawn[at : at + size] = rng.multinomial(n, counts / n, size=size) @ (values - mean) / n
    of_seed = np.sqrt(of_seeds / (seeds * n)) * rng.standard_t(seeds - 1, size=resamples)
    return mean + scale * drawn + of_seed


def _complete(table: ArrayLike) -> Floats:
    d = np.atleast_2d(np.asarray(table, dtype=np.float64))
    return d[:, ~np.isnan(d).any(axis=0)]
