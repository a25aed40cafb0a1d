"""Tango's score interval for the mean of paired differences, for when few pairs differ.

A bootstrap draws only the differences that were seen: of ten equal pairs it makes [0, 0]. The score
interval asks instead which true means would have let so few differences be seen, and so keeps its
width. Of differences in [-1, 1] whose positive and negative parts have given means, those that are
only -1, 0 and 1 vary most; partial differences therefore count as fractions of whole ones, and the
interval then covers more often than it says.

Tango, "Equivalence test and confidence interval for the difference in proportions for the
paired-sample design", Statistics in Medicine 17 (1998) 891-908.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist


def tango(more: float, less: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Interval for P(+1) - P(-1) of ``n`` differences: ``more`` of them are +1, ``less`` -1."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    mean = (more - less) / n

    def far(delta: float) -> bool:
        """Check whether ``delta`` is rejected: the score beyond z."""
        return abs(more - less - n * delta) > z * math.sqrt(n * _variance(more, less, n, delta))

    return _edge(far, mean, -1.0), _edge(far, mean, 1.0)


def _variance(more: float, less: float, n: int, delta: float) -> float:
    """Variance of one difference, where P(-1) has its likeliest value under a mean of ``delta``."""
    linear = (2 * n - more + less) * delta - more - less
    root = math.sqrt(max(0.0, linear**2 + 8 * n * less * delta * (1 - delta)))
    down = (root - linear) / (4 * n)
    return max(0.0, 2 * down + delta * (1 - delta))


def _edge(far: Callable[[float], bool], near: float, end: float) -> float:
    """The last mean towards ``end`` that is not rejected, by bisection."""
    if not far(end):
        return end
    for _ in range(60):
        middle = (near + end) / 2
        near, end = (near, middle) if far(middle) else (middle, end)
    return near
