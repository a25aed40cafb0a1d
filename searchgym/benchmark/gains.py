"""Measures what each rung costs, and how much of the gain from simulation is left on it.

``drop``: the score of the rung above less that of the rung. ``gain``: an agent's score less its
baseline's on the same questions. The **transfer ratio** of a rung is the gain there over the gain
on the reference rung, a held-out world: 1 if all that was learnt carries over, 0 if nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..evaluation.crossed import crossed_interval
from ..evaluation.intervals import NOTHING, Floats, Interval, mean_interval
from ..evaluation.metrics import METRICS
from ..evaluation.result import EvalResult, pair
from .joint import (
    Joint,
    MetricTable,
    complete,
    difference,
    independent_difference,
    mean_of,
    ratio,
)

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
