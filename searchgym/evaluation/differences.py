"""Differences of agents on the same questions, and means over training seeds × questions.

Of paired differences most are often 0, and where fewer than :data:`FEW` are not, BCa covers as
little as 0.42 (one pair in 33 differs, 20 pairs) and Tango's score interval 0.95 or more; it stands
in there.

Every seed answers the same questions, so a table of several seeds is a two-way layout without
replication. Its mean squares (of seeds, of questions, of what is left) say how much each
contributes to the variance of the grand mean. Questions are many and are resampled; seeds are few,
so their share is drawn from Student's t with S - 1 degrees of freedom, scaled by its variance
component. What is left over (a seed was lucky with a question) stands in both mean squares but
counts once, so it is taken off them, off each in part (``COUNTED``). Resampling questions alone
covers 0.85 to 0.89 instead of 0.95 with three seeds that differ by 2 to 4 points;
``tests/benchmarks/test_statistics.py`` measures these here.

Hillis, "A comparison of denominator degrees of freedom methods for multiple observer ROC analysis",
Statistics in Medicine 26 (2007), for the components; Owen, "The pigeonhole bootstrap" (2007), for
resampling both ways; Holm (1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import EvaluationError
from ..seeding import stream
from .intervals import (
    NOTHING,
    RESAMPLES,
    TAILS,
    Floats,
    Interval,
    mean_interval,
    reach_of,
    resampled_means,
)

FEW = 15
"""Paired differences of which fewer stand apart from the commonest one cannot be resampled."""
FEW_OF_SEVERAL = 5
"""The same for means over several seeds, whose own share widens the interval: where 20 to 58
questions differ in 3 to 10 % of all cases, three seeds cover 0.81 to 0.94 without Tango's interval,
0.96 or more with it below five questions, and need not be wider above."""
COUNTED = 0.6
"""Share of the rest that is taken off the seeds' mean square, not the questions'. Ours: with 1 the
intervals of three seeds that differ by 4 to 7 points cover 0.93 to 0.94, with 0 equal ones 0.97."""
DISAGREE = 0.25
"""Share of questions that just one of two agents gets right, where nothing better is known."""
ENOUGH = 0.05
"""A set that shows differences of five points needs no note."""


# --- one seed: question by question -----------------------------------------------------------
def paired_interval(
    a: ArrayLike, b: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """95 % interval for mean(a - b) (n,): question i of both. NaN in either leaves the pair out.

    Where few pairs differ it is Tango's score interval, which is told how far two values can lie
    apart: by 1 if all lie in [0, 1] (EM, F1), else as far as any two of these do, or where all are
    one value as far as that from 0, at least by 1.
    """
    x, y = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    if x.shape != y.shape:
        raise EvaluationError(f"paired values must be as many: got {len(x)} and {len(y)}")
    kept = ~(np.isnan(x) | np.isnan(y))
    x, y = x[kept], y[kept]
    if len(x) and few_differ(x - y):
        both = np.concatenate([x, y])
        within = both.min() >= 0 and both.max() <= 1
        apart = float(np.ptp(both)) or reach_of(float(both[0]))
        return score_interval(x - y, 1.0 if within else apart)
    return mean_interval(x - y, seed=seed, resamples=resamples)


def few_differ(difference: Floats, few: int = FEW) -> bool:
    """True if most paired differences (n,) are one and the same, and fewer than ``few`` another."""
    common = int(np.unique(difference, return_counts=True)[1].max())
    return len(difference) - common < min(few, common)


def score_interval(difference: Floats, bound: float) -> Interval:
    """Tango's interval for the mean of paired differences (n,) that lie in [-bound, bound].

    Raises:
        EvaluationError: for a difference beyond ``bound``, or one that is not above 0.
    """
    n, mean = len(difference), float(difference.mean())
    if np.abs(difference).max() > bound + 1e-9:
        raise EvaluationError(f"differences must lie within ±{bound}, got {difference}")
    if not bound > 0:
        raise EvaluationError(f"the bound of differences must be above 0, got {bound}")
    more, less = (float(np.clip(side, 0, None).sum()) for side in (difference, -difference))
    low, high = tango(more / bound, less / bound, n)
    return Interval(mean, min(mean, bound * low), max(mean, bound * high), n, "tango")


def tango(more: float, less: float, n: int) -> tuple[float, float]:
    """Interval for P(+1) - P(-1) of ``n`` differences: ``more`` of them are +1, ``less`` -1.

    A bootstrap draws only the differences that were seen: of ten equal pairs it makes [0, 0]. The
    score interval asks which true means would have let so few differences be seen. Partial
    differences count as fractions of whole ones, and the interval then covers more often than it
    says: of differences with given positive and negative parts those of size 1 vary most.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17 (1998) 891-908.
    """
    z = NormalDist().inv_cdf(TAILS[1])
    mean = (more - less) / n

    def rejected(delta: float) -> bool:
        return abs(more - less - n * delta) > z * math.sqrt(n * _variance(more, less, n, delta))

    return _edge(rejected, mean, -1.0), _edge(rejected, mean, 1.0)


def _variance(more: float, less: float, n: int, delta: float) -> float:
    """Variance of one difference, where P(-1) has its likeliest value under a mean of ``delta``."""
    linear = (2 * n - more + less) * delta - more - less
    root = math.sqrt(max(0.0, linear**2 + 8 * n * less * delta * (1 - delta)))
    down = (root - linear) / (4 * n)
    return max(0.0, 2 * down + delta * (1 - delta))


def _edge(rejected: Callable[[float], bool], near: float, end: float) -> float:
    """The last mean towards ``end`` that is not rejected, by bisection."""
    if not rejected(end):
        return end
    for _ in range(60):
        middle = (near + end) / 2
        near, end = (near, middle) if rejected(middle) else (middle, end)
    return near


def sign_flip_p(difference: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of "paired differences are symmetric about 0" by flipping signs at random.

    Counts the observed arrangement too, so p is at least 1 / (resamples + 1).
    """
    d = np.asarray(difference, dtype=np.float64).ravel()
    d = d[~np.isnan(d)]
    d = d[d != 0]
    if len(d) == 0:
        return 1.0
    magnitudes, counts = np.unique(np.abs(d), return_counts=True)
    rng = stream(seed, "sign-flip", len(d))
    observed = abs(d.sum())
    # the number of positive signs among equal magnitudes is binomial
    positive = rng.binomial(counts, 0.5, size=(resamples, len(counts)))
    sums = np.abs((2 * positive - counts) @ magnitudes)
    return float((1 + (sums >= observed - 1e-9).sum()) / (1 + resamples))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: adjusted p-values, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return [float(v) for v in adjusted]


# --- seeds × questions ------------------------------------------------------------------------
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
    resamples: int = RESAMPLES,
    unit: bool = False,
    bound: float | None = None,
) -> Interval:
    """95 % interval for the mean of ``table`` (S, Q), S training seeds on the same Q questions.

    Speaks of other seeds and other questions; with S = 1 only questions vary. Questions with a NaN
    in any seed are left out. ``unit``: as in :func:`~searchgym.evaluation.intervals.mean_interval`.

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
    alike = seeds == 1 or n == 1 or d.min() == d.max()
    if bound is not None and few_differ(d.mean(axis=0), FEW if seeds == 1 else FEW_OF_SEVERAL):
        score = score_interval(d.mean(axis=0), bound)
        if alike:
            return score
        wide = crossed_interval(d, seed=seed, resamples=resamples)
        # seeds that differ widen it, too
        ends = min(score.low, wide.low), max(score.high, wide.high)
        return Interval(score.mean, *ends, n, f"tango, {wide.method}")
    low, high = 0.0, 0.0
    if not alike:
        drawn = _draws(d, COUNTED, seed, resamples)
        low, high = np.quantile(drawn, TAILS)
    if high - low < 1e-12:  # equal values, or means: what is said of questions, not of repetitions
        return mean_interval(d.mean(axis=0), seed=seed, resamples=resamples, unit=unit)
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
    rng, mean = stream(seed, "crossed", seeds, n), d.mean()
    drawn = resampled_means(d.mean(axis=0) - mean, rng, resamples)
    of_seed = np.sqrt(of_seeds / (seeds * n)) * rng.standard_t(seeds - 1, size=resamples)
    return mean + float(np.sqrt(max(0.0, kept))) * drawn + of_seed


def _complete(table: ArrayLike) -> Floats:
    d = np.atleast_2d(np.asarray(table, dtype=np.float64))
    return d[:, ~np.isnan(d).any(axis=0)]


# --- statistical power ------------------------------------------------------------------------
def detectable(questions: int, *, disagree: float = DISAGREE) -> float:
    """The smallest true difference in accuracy, in [0, 1], that a two-sided paired test at 5 %
    finds four times in five; infinite where it would lie above ``disagree``.

    Each question counts 1, 0 or -1; only those on which the agents disagree say anything. Connor,
    "Sample size for testing differences in proportions for the paired-sample design", Biometrics
    43 (1987), solved for the difference.

    Raises:
        EvaluationError: no questions, or a share that is not in (0, 1].
    """
    if questions < 1 or not 0 < disagree <= 1:
        raise EvaluationError(
            f"power needs questions ≥ 1 and 0 < disagree ≤ 1, got {questions} and {disagree}"
        )
    normal = NormalDist()
    a, b = normal.inv_cdf(TAILS[1]), normal.inv_cdf(0.8)
    # d √n = a √q + b √(q - d²), squared and solved for d
    n, q = questions, disagree
    p = n + b * b
    root = a * a * n * q - p * (a * a * q - b * b * q)
    difference = math.inf if root < 0 else (a * (n * q) ** 0.5 + root**0.5) / p
    return difference if difference <= disagree else math.inf


def power_note(questions: int) -> str | None:
    """A sentence for readers of a table whose question set is too small, else None."""
    difference = detectable(questions)
    if difference <= ENOUGH:
        return None
    half = NormalDist().inv_cdf(TAILS[1]) * (0.25 / questions) ** 0.5
    needed = questions
    while detectable(needed) > ENOUGH:
        needed = int(needed * 1.05) + 1
    told = (
        f"no difference between two agents that disagree on {100 * DISAGREE:.0f} % of them can be "
        "told apart reliably"
        if difference == math.inf
        else f"two agents must differ by about {100 * difference:.0f} points to be told apart four "
        "times in five"
    )
    return (
        f"{questions:,} question{'s are' if questions != 1 else ' is'} few: an accuracy near one "
        f"half is known to ±{100 * half:.0f} points, and {told}; {100 * ENOUGH:.0f} points take "
        f"about {-(-needed // 50) * 50:,} questions"
    )
