"""Means of several question sets resampled together, for intervals of ratios and differences.

The same training seeds answer every set, so that a lucky seed is lucky everywhere; questions are
others from set to set. A draw therefore resamples each set's questions by themselves (sets with
the same questions together) and adds one deviation of the seeds to all sets at once: multivariate
Student t with S - 1 degrees of freedom, scaled by the seeds' covariance less what the questions'
own noise puts into it. The reasons are given in ``evaluation.crossed``, which does the same for one
set, except that it leaves a part of that noise with the seeds.

Fieller, "Some problems in interval estimation" (1954): a ratio θ of means is in the interval if
N - θD is compatible with 0. Where D > 0 throughout, the bootstrap's form of that is the percentile
interval of N*/D*; where D's own interval holds 0, no ratio is excluded, and it is called undefined.
Newcombe, Statistics in Medicine 17 (1998) 873, for differences of two independent means.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import EvaluationError
from ..evaluation.crossed import spread
from ..evaluation.intervals import NOTHING, Floats, Interval
from ..seeding import stream

RESAMPLES = 5_000


class MetricTable(NamedTuple):
    """One metric on one question set."""

    values: Floats
    """(S, Q): seeds × questions, no NaN."""
    questions: tuple[str, ...]
    """(Q,) ids; sets with equal ids are resampled together."""


Side = Sequence[MetricTable]
"""Sets whose means are averaged, each with the same weight."""


def complete(values: Floats, questions: Sequence[str]) -> MetricTable:
    """A table without the questions that lack a value in any seed."""
    kept = np.flatnonzero(~np.isnan(values).any(axis=0)).tolist()
    return MetricTable(values[:, kept], tuple(questions[i] for i in kept))


class Joint:
    """Draws of means. Counts are kept by question set, so that each is drawn once.

    Args:
        seed: Fixes every draw.
        resamples: Draws per mean (B).
    """

    def __init__(self, seed: int = 0, resamples: int = RESAMPLES) -> None:
        self.seed, self.resamples = seed, resamples
        self._shares: dict[tuple[str, ...], np.ndarray] = {}

    def means(self, sides: Sequence[Side]) -> Floats:
        """(B, number of sides). Every table has equally many seeds.

        Raises:
            EvaluationError: an empty side or table, or unequal numbers of seeds.
        """
        seeds = {len(t.values) for side in sides for t in side}
        if len(seeds) != 1 or not all(side and all(t.questions for t in side) for side in sides):
            raise EvaluationError(
                f"draws need questions on every side and the same seeds, got {sorted(seeds)} seeds"
            )
        drawn = np.stack([self._of_questions(side) for side in sides], axis=1)
        n = seeds.pop()
        return drawn if n == 1 else drawn + self._of_seeds(sides, n)

    def _of_questions(self, side: Side) -> Floats:
        parts = [self._share(t.questions) @ t.values.mean(axis=0) for t in side]
        return np.mean(parts, axis=0, dtype=np.float64)

    def _of_seeds(self, sides: Sequence[Side], seeds: int) -> Floats:
        """Deviations (B, sides) of the mean over other seeds, the same seeds on every side."""
        rows = np.stack(
            [np.mean([t.values.mean(axis=1) for t in side], axis=0) for side in sides], axis=1
        )
        own = [sum(_noise(t) for t in side) / len(side) ** 2 for side in sides]
        covariance = np.atleast_2d(np.cov(rows, rowvar=False)) - np.diag(own)
        size, axes = np.linalg.eigh(covariance / seeds)
        root = axes * np.sqrt(np.clip(size, 0, None))
        rng = stream(self.seed, "joint-seeds", seeds, len(sides))
        normal = rng.standard_normal((self.resamples, len(sides)))
        scale = np.sqrt(rng.chisquare(seeds - 1, self.resamples) / (seeds - 1))
        drawn: Floats = (normal / scale[:, None]) @ root.T
        return drawn

    def _share(self, questions: tuple[str, ...]) -> np.ndarray:
        """(B, Q): how much of each resample is each question."""
        if questions not in self._shares:
            n = len(questions)
            name = hashlib.sha256("\0".join(questions).encode()).hexdigest()
            rng = stream(self.seed, "joint-questions", name)
            counts = rng.multinomial(n, np.full(n, 1 / n), size=self.resamples)
            self._shares[questions] = (counts / n).astype(np.float32)
        return self._shares[questions]


def _noise(table: MetricTable) -> float:
    """Variance that questions alone put into one seed's mean: the residual mean square / Q."""
    seeds, n = table.values.shape
    return spread(table.values).rest / n if seeds > 1 and n > 1 else 0.0


def mean_of(side: Side) -> float:
    """The average of the sets' means."""
    return float(np.mean([t.values.mean() for t in side]))


def difference(a: Side, b: Side, joint: Joint, *, level: float = 0.95) -> Interval:
    """mean(a) - mean(b) of different questions and the same seeds; n: questions of ``a``."""
    drawn = joint.means([a, b])
    return _interval(mean_of(a) - mean_of(b), drawn[:, 0] - drawn[:, 1], a, level)


def independent_difference(a: Interval, b: Interval) -> Interval:
    """a - b of two means with nothing in common, from their own intervals (Newcombe's method 10),
    which stays honest where a mean is 0 or 1 and a bootstrap has no width."""
    if not a.n or not b.n:
        return NOTHING
    d = a.mean - b.mean
    low = d - math.hypot(a.mean - a.low, b.high - b.mean)
    high = d + math.hypot(a.high - a.mean, b.mean - b.low)
    return Interval(d, low, high, a.n, "Newcombe")


def ratio(top: Side, bottom: Side, joint: Joint, *, level: float = 0.95) -> Interval | None:
    """mean(top) / mean(bottom); None where the lower end of ``bottom``'s interval is not above 0:
    nothing was gained below of which a share could be left above."""
    drawn = joint.means([top, bottom])
    tail = (1 - level) / 2
    if np.quantile(drawn[:, 1], tail) <= 0:
        return None
    positive = drawn[:, 1] > 0
    safe = np.where(positive, drawn[:, 1], 1.0)
    beyond = np.where(drawn[:, 0] >= 0, np.inf, -np.inf)  # at most a ``tail`` of all draws
    return _interval(
        mean_of(top) / mean_of(bottom), np.where(positive, drawn[:, 0] / safe, beyond), top, level
    )


def _interval(mean: float, drawn: Floats, side: Side, level: float) -> Interval:
    tail = (1 - level) / 2
    # method "nearest": an interpolation between a number and infinity is none
    low, high = np.quantile(drawn, [tail, 1 - tail], method="nearest")
    n, seeds = sum(len(t.questions) for t in side), len(side[0].values)
    method = "bootstrap" if seeds == 1 else f"bootstrap over questions and {seeds} seeds"
    return Interval(mean, float(low), float(high), n, method)
