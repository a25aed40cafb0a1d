"""Costs of each rung, and how much of the gain from simulation is left on it.

``drop``: the score of the rung above less that of the rung. ``gain``: an agent's score less its
baseline's on the same questions. The **transfer ratio** of a rung is the gain there over the gain
on the reference rung, a held-out world: 1 if all that was learnt carries over, 0 if nothing does.

For their intervals several sets are resampled together. The same training seeds answer every set,
so that a lucky seed is lucky everywhere; questions are others from set to set. A draw therefore
resamples each set's questions by themselves (sets with the same questions together) and adds one
deviation of the seeds to all sets at once: multivariate Student t with S - 1 degrees of freedom,
scaled by the seeds' covariance less what the questions' own noise puts into it
(``evaluation.differences`` gives the reasons).

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
from ..evaluation.comparison import pair
from ..evaluation.differences import crossed_interval, spread
from ..evaluation.intervals import NOTHING, TAILS, Floats, Interval, mean_interval
from ..evaluation.metrics import METRICS
from ..evaluation.result import EvalResult
from ..seeding import stream

RESAMPLES = 5_000


class MetricTable(NamedTuple):
    """One metric on one question set: values (S, Q), seeds × questions, without NaN, and the ids
    (Q,) of questions. Sets with equal ids are resampled together."""

    values: Floats
    questions: tuple[str, ...]


Side = Sequence[MetricTable]
"""Sets whose means are averaged, each with the same weight."""


def complete(values: Floats, questions: Sequence[str]) -> MetricTable:
    """A table without the questions that lack a value in any seed."""
    kept = np.flatnonzero(~np.isnan(values).any(axis=0)).tolist()
    return MetricTable(values[:, kept], tuple(questions[i] for i in kept))


class Joint:
    """Draws of means, ``resamples`` (B) each. Counts are kept by question set, so that each is
    drawn once."""

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


def difference(a: Side, b: Side, joint: Joint) -> Interval:
    """mean(a) - mean(b) of different questions and the same seeds; n: questions of ``a``."""
    drawn = joint.means([a, b])
    return _interval(mean_of(a) - mean_of(b), drawn[:, 0] - drawn[:, 1], a)


def independent_difference(a: Interval, b: Interval) -> Interval:
    """a - b of two means with nothing in common, from their own intervals (Newcombe's method 10),
    which stays honest where a mean is 0 or 1 and a bootstrap has no width."""
    if not a.n or not b.n:
        return NOTHING
    d = a.mean - b.mean
    low = d - math.hypot(a.mean - a.low, b.high - b.mean)
    high = d + math.hypot(a.high - a.mean, b.mean - b.low)
    return Interval(d, low, high, a.n, "Newcombe")


def ratio(top: Side, bottom: Side, joint: Joint) -> Interval | None:
    """mean(top) / mean(bottom); None where the lower end of ``bottom``'s interval is not above 0:
    nothing was gained below of which a share could be left above."""
    drawn = joint.means([top, bottom])
    if np.quantile(drawn[:, 1], TAILS[0]) <= 0:
        return None
    positive = drawn[:, 1] > 0
    safe = np.where(positive, drawn[:, 1], 1.0)
    beyond = np.where(drawn[:, 0] >= 0, np.inf, -np.inf)  # at most a ``tail`` of all draws
    return _interval(
        mean_of(top) / mean_of(bottom), np.where(positive, drawn[:, 0] / safe, beyond), top
    )


def _interval(mean: float, drawn: Floats, side: Side) -> Interval:
    # method "nearest": an interpolation between a number and infinity is none
    low, high = np.quantile(drawn, TAILS, method="nearest")
    n, seeds = sum(len(t.questions) for t in side), len(side[0].values)
    method = "bootstrap" if seeds == 1 else f"bootstrap over questions and {seeds} seeds"
    return Interval(mean, float(low), float(high), n, method)


# --- drops and gains ----------------------------------------------------------------------------
Results = Sequence[EvalResult]
"""One result per training seed, all on the same questions."""
ENGINE_ONLY = ("engine", "environment", "rules", "corpus")
"""The parts that may differ between two rungs that ask the same questions."""


class Drop(NamedTuple):
    """Score of the rung above minus that of the rung: what one step costs."""

    rung: str
    above: str
    agent: str
    metric: str
    drop: Interval
    paired: bool
    """True if both rungs ask the same questions, which are then compared one by one."""


class Gain(NamedTuple):
    """An agent's gain over its baseline on a rung, absolute and as a share of the reference."""

    rung: str
    agent: str
    baseline: str
    reference: str
    metric: str
    gain: Interval
    reference_gain: Interval
    ratio: Interval | None
    """Transfer ratio; None: undefined."""
    why: str
    """The reason why the gain is undefined; "" if it is defined."""


def aligned(results: Results, metric: str) -> Floats:
    """(S, Q), every row in the order of the first result."""
    first = results[0]
    return np.stack([first.values(metric), *(pair(first, r, metric)[1] for r in results[1:])])


def paired_difference(a: Results, b: Results, metric: str, despite: Sequence[str] = ()) -> Floats:
    """Differences (S, Q) question by question. Equally many seeds pair up (same seed, before and
    after training); otherwise each seed of the larger side meets the other's mean."""
    x = aligned(a, metric)
    y = np.stack([pair(a[0], r, metric, despite)[1] for r in b])
    if len(x) == len(y):
        return x - y
    return x - y.mean(axis=0) if len(x) > len(y) else x.mean(axis=0) - y


def drop_between(
    above: Results, below: Results, metric: str, joint: Joint
) -> tuple[Interval, bool]:
    """Return ``above`` minus ``below`` with its interval, and whether it is paired."""
    if _ids(above) == _ids(below):
        table = paired_difference(above, below, metric, ENGINE_ONLY)
        return crossed_interval(table, seed=joint.seed, bound=bound_of(metric)), True
    x, y = _table(above, metric), _table(below, metric)
    if not x.questions or not y.questions:
        return NOTHING, False
    if len(x.values) == len(y.values) > 1:
        told = difference([x], [y], joint)
        if told.low < told.high:  # equal values draw no others
            return told, False
    return independent_difference(*(_own(t, metric, joint.seed) for t in (x, y))), False


def gain_table(agent: Results, baseline: Results, metric: str) -> MetricTable:
    """Gains (S, Q) over the baseline, one per seed and question."""
    values = paired_difference(agent, baseline, metric)
    return complete(values, [row.task_id for row in agent[0].rows])


def bound_of(metric: str) -> float | None:
    """Return the largest possible difference of two values of a metric; None: unbounded."""
    return 1.0 if METRICS[metric] else None


def transfer_ratio(
    there: Sequence[MetricTable], reference: MetricTable, joint: Joint, bound: float | None = None
) -> tuple[Interval, Interval, Interval | None, str]:
    """(gain there, gain on the reference, ratio or None, why None) of gain tables; several sets
    ``there`` are averaged, each with the same weight. ``bound``: see ``crossed_interval``."""
    there = [t for t in there if t.questions]
    if not there or not reference.questions:
        return NOTHING, NOTHING, None, "no questions in common with the baseline"
    seeds = {len(t.values) for t in (*there, reference)}
    if len(seeds) > 1:  # a seed is missing on some rung: only means can be compared
        there = [MetricTable(t.values.mean(axis=0, keepdims=True), t.questions) for t in there]
        reference = MetricTable(reference.values.mean(axis=0, keepdims=True), reference.questions)
    base = crossed_interval(reference.values, seed=joint.seed, bound=bound)
    gain = _pooled(there, joint, bound)
    transferred = ratio(there, [reference], joint)
    if transferred and transferred.low == transferred.high:  # equal gains draw no others
        low, high = _quotient(gain, base)
        transferred = transferred._replace(low=low, high=high)
    why = "" if transferred else "the gain on the reference is not above 0 beyond doubt"
    return gain, base, transferred, why


def _quotient(gain: Interval, base: Interval) -> tuple[float, float]:
    """Ends of gain / base from their own intervals; infinite where the base may be 0."""
    if base.low <= 0:
        return -math.inf, math.inf
    ends = [g / b for g in (gain.low, gain.high) for b in (base.low, base.high)]
    return min(ends), max(ends)


def _pooled(there: Sequence[MetricTable], joint: Joint, bound: float | None) -> Interval:
    if len(there) == 1:
        return crossed_interval(there[0].values, seed=joint.seed, bound=bound)
    low, high = np.quantile(joint.means([there])[:, 0], [0.025, 0.975])
    n, mean = sum(len(t.questions) for t in there), mean_of(there)
    if low == high:  # equal values draw no others: what each set's interval says of them
        own = [crossed_interval(t.values, seed=joint.seed, bound=bound) for t in there]
        low = mean - math.hypot(*(i.mean - i.low for i in own)) / len(own)
        high = mean + math.hypot(*(i.high - i.mean for i in own)) / len(own)
    return Interval(mean, float(low), float(high), n, f"mean of {len(there)} sets")


def _table(results: Results, metric: str) -> MetricTable:
    return complete(aligned(results, metric), [row.task_id for row in results[0].rows])


def _own(table: MetricTable, metric: str, seed: int) -> Interval:
    if len(table.values) == 1:
        return mean_interval(table.values[0], seed=seed, unit=METRICS[metric])
    return crossed_interval(table.values, seed=seed, unit=METRICS[metric])


def _ids(results: Results) -> frozenset[str]:
    return frozenset(row.task_id for row in results[0].rows)
