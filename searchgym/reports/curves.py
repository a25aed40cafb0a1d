"""Curves over training: smoothing, several seeds as one, and as many points as a picture needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from ..evaluation.intervals import Interval, over_seeds

POINTS = 120
"""Largest number of points of a line; longer runs are thinned to means of neighbouring steps."""


def span_of(points: int) -> int:
    """Return how many neighbouring points of a line of so many are averaged: a tenth of them, an
    odd number; 1 (none but the point itself) below ten points."""
    return 1 if points < 10 else max(3, points // 10 // 2 * 2 + 1)


def centred(values: Sequence[float | None], span: int) -> list[float]:
    """Return the mean of the ``span`` values around each (odd; nulls and NaN are left out).

    Near the ends the window is narrower, and the same to both sides: a line that rises evenly stays
    where it is, which a window that looks back only would move.
    """
    half, n = span // 2, len(values)
    out = []
    for i in range(n):
        reach = min(half, i, n - 1 - i)
        known = _known(values[i - reach : i + reach + 1])
        out.append(fmean(known) if known else math.nan)
    return out


def thinned(
    xs: Sequence[float], values: Sequence[float | None], points: int = POINTS
) -> list[tuple[float, float]]:
    """Return at most ``points`` (x, mean value) of equally many neighbours each; x is that of the
    last of them, so that lines of one run fall on the same places. Nulls and NaN are left out."""
    size = -(-len(xs) // points)
    out = []
    for start in range(0, len(xs), max(size, 1)):
        if known := _known(values[start : start + size]):
            out.append((xs[min(start + size, len(xs)) - 1], fmean(known)))
    return out


def mean_curve(lines: Iterable[Sequence[tuple[float, float]]]) -> list[tuple[float, Interval]]:
    """Lines of (x, value), one per seed, as one: at each x the seeds that have a value there."""
    there: dict[float, list[float]] = {}
    for line in lines:
        for x, value in line:
            there.setdefault(x, []).append(value)
    return [(x, over_seeds(values)) for x, values in sorted(there.items())]


def ends(values: Sequence[float | None], count: int = 10) -> tuple[float | None, float | None]:
    """Means of the first and of the last ``count`` known values; of half of them where there are
    fewer than twice as many."""
    if not (known := _known(values)):
        return None, None
    size = max(1, min(count, len(known) // 2))
    return fmean(known[:size]), fmean(known[-size:])


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and not math.isnan(v)]


def changing(rows: Sequence[Mapping[str, object]], prefix: str) -> list[str]:
    """Names of all values that begin with ``prefix``, in the order in which they came up."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(prefix))
    return [n for n in names if any(row.get(n) is not None for row in rows)]
