"""Intervals of figures of several seeds, and verdicts by intervals.

The seeds of an ordering's arms are paired: equal seeds have equal questions and equal beginnings.
An interval is Student's t over these pairs (of the logarithm, for ratios), which with three seeds
is wide, as it should be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple, get_args

from ..learning_results import NOTHING, interval
from .declared import By, Compared, Ordering

Verdict = Literal["agree", "disagree", "undecided", "not measurable", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LEAST_SEEDS = 3
Figures = Mapping[str, Any]
"""Figures of one piece: name → number or None; ``capped`` names those that are lower bounds, where
a training ended before it got there."""


class Judged(NamedTuple):
    """A comparison with its interval and verdict."""

    what: str
    range: str
    mean: float
    low: float
    high: float
    seeds: int
    verdict: Verdict
    collapsed: tuple[int, int] = (0, 0)
    """Seeds of either side whose training ended with nothing learnt (:data:`NOTHING`)."""


def judged(pair: Compared, arms: Mapping[str, Sequence[Figures]]) -> Judged:
    """Compare two figures seed by seed.

    A figure that is a lower bound leaves its side of the interval open: if a training has not
    reached the goal, the number of episodes it takes is anything above those it had. Where neither
    side's trainings have learnt anything, the rest of their figures say nothing of the methods:
    "not measurable".

    Args:
        arms: Figures of each arm, seed by seed, as many as were measured.
    """
    (a, figure), (b, other) = pair.first, pair.second
    both = [(x, y) for x, y in zip(arms[a], arms[b], strict=False)
            if x.get(figure) is not None and y.get(other) is not None]  # fmt: skip
    mean, low, high = paired([(x[figure], y[other]) for x, y in both], pair.by)
    if any(figure in x.get("capped", ()) for x, _ in both):
        high = math.inf
    if any(other in y.get("capped", ()) for _, y in both):
        low = 0.0 if pair.by == "ratio" else -math.inf
    verdict = of_interval(low, high, pair.least, pair.most, len(both))
    sides = [[f["em"] for f in side if "em" in f] for side in zip(*both, strict=True)]
    at_0 = [sum(em <= NOTHING for em in side) for side in sides] or [0, 0]
    if verdict != "not measured" and all(side and fmean(side) <= NOTHING for side in sides):
        verdict = "not measurable"
    return Judged(pair.told, pair.range, mean, low, high, len(both), verdict, (at_0[0], at_0[1]))


def paired(values: Sequence[tuple[float, float]], by: By) -> tuple[float, float, float]:
    """Mean difference, or geometric mean of the ratios, with its 95 % interval; one that says
    nothing where there are fewer than three seeds, or a ratio of something that is not above 0."""
    if len(values) < LEAST_SEEDS:
        return math.nan, -math.inf, math.inf
    if by == "difference":
        return interval([x - y for x, y in values])
    if min(min(pair) for pair in values) <= 0:
        first, second = (sum(side) for side in zip(*values, strict=True))
        return (first / second if second > 0 else math.nan), 0.0, math.inf
    mean, low, high = (math.exp(v) for v in interval([math.log(x / y) for x, y in values]))
    return mean, low, high


def of_interval(low: float, high: float, least: float, most: float, seeds: int) -> Verdict:
    """``agree`` if the interval lies inside the published range, ``disagree`` if outside, else
    ``undecided``; an end on the edge decides nothing."""
    if seeds < LEAST_SEEDS:
        return "not measured"
    if (low > least or least == -math.inf) and (high < most or most == math.inf):
        return "agree"
    return "disagree" if high < least or low > most else "undecided"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdict of an ordering: of all its comparisons together."""
    if not verdicts or "not measured" in verdicts:
        return "not measured"
    if "disagree" in verdicts:
        return "disagree"
    if "not measurable" in verdicts:
        return "not measurable"
    return "agree" if set(verdicts) == {"agree"} else "undecided"


def verdict_of(
    ordering: Ordering, pieces: Mapping[str, Figures]
) -> tuple[Verdict, tuple[Judged, ...]]:
    """An ordering's verdict and its comparisons, from the pieces that were measured. A comparison
    leaves out the seeds of which one of its arms lacks a piece."""
    comparisons = []
    for pair in ordering.compared:
        names = {name for name, _ in (pair.first, pair.second)}
        there = [
            {name: pieces[ordering.arms[name].piece(seed)] for name in names}
            for seed in range(ordering.seeds)
            if all(ordering.arms[name].piece(seed) in pieces for name in names)
        ]
        comparisons.append(judged(pair, {name: [seed[name] for seed in there] for name in names}))
    return overall([one.verdict for one in comparisons]), tuple(comparisons)
