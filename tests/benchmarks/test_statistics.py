"""Do 95 % intervals hold what they say, and does the paired test raise false alarms?

The full simulations; small versions of them run with the other tests. Seeds and questions differ by
a probit model: question i is answered rightly by seed s where √ρ·qᵢ + √(1-ρ)·eₛᵢ + σ·tₛ is below a
threshold that makes the share right p.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from searchgym.evaluation import (
    TAILS,
    Interval,
    crossed_interval,
    crossed_p,
    mean_interval,
    resampled_means,
    sign_flip_p,
    wilson,
)
from searchgym.seeding import stream
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark
RESAMPLES = 1_000
FEW = 400
"""For the many runs of the tests."""
NORMAL = NormalDist()


def covered(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def probit(
    draw: np.random.Generator, seeds: int, n: int, p: float, rho: float, sigma: float
) -> NDArray[np.float64]:
    """0/1 scores (S, Q)."""
    z = (
        np.sqrt(rho) * draw.standard_normal((1, n))
        + np.sqrt(1 - rho) * draw.standard_normal((seeds, n))
        + sigma * draw.standard_normal((seeds, 1))
    )
    return (z < NORMAL.inv_cdf(p) * np.sqrt(1 + sigma**2)).astype(np.float64)


def test_one_seed_covers() -> None:
    """BCa at n ≥ 200 and 0.1 ≤ p ≤ 0.9; Wilson, too, for few questions and extreme shares."""
    trials = 2_000
    rows = []
    for n, p in ((200, 0.1), (200, 0.3), (200, 0.5), (200, 0.9), (1_000, 0.1), (1_000, 0.5)):
        draw = stream(0, "coverage", n, int(100 * p))
        right = draw.binomial(n, p, size=trials)
        em = np.mean(
            [
                covered(_binary(int(c), n, "bca", t), p)
                for t, c in enumerate(right)
            ]
        )  # fmt: skip
        partial = _partial(n, p)
        f1 = np.mean(
            [
                covered(mean_interval(partial(draw), seed=t, resamples=RESAMPLES, unit=True), p)
                for t in range(trials // 2)
            ]
        )
        rows.append([n, p, f"{em:.3f}", f"{f1:.3f}"])
        assert abs(em - 0.95) <= 0.015 + 0.01  # a standard error of 2,000 trials is 0.005
        assert abs(f1 - 0.95) <= 0.015 + 0.014
    show("BCa, one seed", ["questions", "mean", "0/1 values", "partial scores"], rows)
    rows = []
    for n, p in ((58, 0.02), (58, 0.1), (125, 0.02), (125, 0.4), (200, 0.02), (200, 0.98)):
        draw = stream(0, "small", n, int(100 * p))
        right = draw.binomial(n, p, size=trials)
        shares = [
            float(np.mean([covered(_binary(int(c), n, how, t), p) for t, c in enumerate(right)]))
            for how in ("percentile", "bca", "wilson")
        ]
        rows.append([n, p, *(f"{s:.3f}" for s in shares)])
        assert shares[2] >= 0.92
    show("0/1 values, few or extreme", ["questions", "mean", "percentile", "BCa", "Wilson"], rows)


def test_three_seeds_cover() -> None:
    trials = 1_000
    rows = []
    for seeds, n, p, rho, sigma in (
        (3, 200, 0.5, 0.5, 0.0), (3, 200, 0.5, 0.8, 0.0), (3, 200, 0.1, 0.5, 0.05),
        (3, 200, 0.5, 0.5, 0.05), (3, 200, 0.5, 0.5, 0.1), (3, 500, 0.5, 0.5, 0.05),
        (3, 500, 0.5, 0.5, 0.1), (3, 200, 0.5, 0.5, 0.2), (5, 200, 0.5, 0.5, 0.1),
    ):  # fmt: skip
        draw = stream(0, "seeds", seeds, n, int(100 * p), int(100 * rho), int(100 * sigma))
        both = alone = 0
        apart = []
        for trial in range(trials):
            table = probit(draw, seeds, n, p, rho, sigma)
            apart.append(table.mean(axis=1).std(ddof=1))
            both += covered(crossed_interval(table, seed=trial, resamples=RESAMPLES, unit=True), p)
            alone += covered(
                mean_interval(table.mean(axis=0), seed=trial, resamples=RESAMPLES, unit=True), p
            )
        share = both / trials
        rows.append(
            [seeds, n, p, rho, sigma, f"{np.mean(apart):.3f}", f"{share:.3f}",
             f"{alone / trials:.3f}"]
        )  # fmt: skip
        assert share >= 0.90
    show(
        "Seeds and questions together",
        ["seeds", "questions", "mean", "ρ", "σ", "sd of seeds", "both", "questions alone"],
        rows,
    )


def test_false_alarms() -> None:
    """Two equal agents on the same questions: how often is p < 0.05?"""
    trials = 10_000
    rows = []
    for n, what in ((58, "0/1"), (200, "0/1"), (200, "partial")):
        draw, alarms = stream(0, "alarms", n, what), 0
        values = np.array([0.0, 1.0] if what == "0/1" else [0.0, 0.25, 1 / 3, 0.5, 1.0])
        for trial in range(trials):
            size = values[draw.integers(len(values), size=n)]
            d = size * (2.0 * draw.integers(2, size=n) - 1)
            alarms += sign_flip_p(d, seed=trial, resamples=FEW) < 0.05
        rows.append(["sign flips", 1, n, what, "", f"{alarms / trials:.4f}"])
        assert alarms / trials <= 0.055
    for n, sigma in ((200, 0.0), (200, 0.05), (200, 0.1)):
        draw, alarms = stream(0, "alarms", n, int(100 * sigma)), 0
        for trial in range(trials):
            hard = np.sqrt(0.5) * draw.standard_normal((1, n))
            d = _agent(draw, hard, n, sigma) - _agent(draw, hard, n, sigma)
            alarms += crossed_p(d, seed=trial, resamples=FEW) < 0.05
        rows.append(["crossed", 3, n, "0/1", sigma, f"{alarms / trials:.4f}"])
        assert alarms / trials <= 0.055
    show(
        f"False alarms at p < 0.05 in {trials:,} comparisons of equals",
        ["test", "seeds", "questions", "values", "σ", "share"],
        rows,
    )


def _agent(
    draw: np.random.Generator, hard: NDArray[np.float64], n: int, sigma: float
) -> NDArray[np.float64]:
    """0/1 scores (3, n) of one agent: shared difficulty, its own taste, seeds and chance."""
    taste = np.sqrt(0.25) * draw.standard_normal((1, n))
    chance = np.sqrt(0.25) * draw.standard_normal((3, n))
    z = hard + taste + chance + sigma * draw.standard_normal((3, 1))
    return (z < 0).astype(np.float64)


def _binary(right: int, n: int, how: str, seed: int) -> Interval:
    x = np.zeros(n)
    x[:right] = 1
    found = mean_interval(x, seed=seed, resamples=RESAMPLES, unit=True)
    if how == "wilson":
        return found._replace(**dict(zip(("low", "high"), wilson(right, n), strict=True)))
    if how == "percentile" and found.method == "bca":
        means = resampled_means(x, stream(seed, "bootstrap", n), RESAMPLES)
        low, high = np.quantile(means, TAILS)
        return found._replace(low=float(low), high=float(high))
    return found


def _partial(n: int, p: float) -> Callable[[np.random.Generator], NDArray[np.float64]]:
    """Scores with mean p: 0 or 1 mostly, a quarter of the mean from scores of one half."""
    half = min(p, 1 - p) / 2

    def sample(draw: np.random.Generator) -> NDArray[np.float64]:
        u = draw.random(n)
        return np.where(u < p - half / 2, 1.0, np.where(u < p + half / 2, 0.5, 0.0))

    return sample
