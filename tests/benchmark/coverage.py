"""Made-up agents whose true transfer ratio is known, to see how often intervals hold it."""

from __future__ import annotations

import numpy as np

from searchgym.benchmark.gains import Joint, MetricTable, ratio
from searchgym.evaluation import wilson

REAL, SIMULATED = 0.2, 0.5
"""True gains; their ratio is what the intervals should hold."""


def gains(
    rng: np.random.Generator, gain: float, questions: int, seeds: np.ndarray, name: str
) -> MetricTable:
    """0/1 gains of agents that answer a share ``gain`` more than nothing, some questions more
    likely than others, each training seed shifted by its entry."""
    easy = rng.beta(2, 2, questions)
    chance = np.clip(gain + 0.8 * (easy - 0.5) * gain + seeds[:, None], 0, 1)
    values = (rng.random(chance.shape) < chance).astype(float)
    return MetricTable(values, tuple(f"{name}-{i}" for i in range(questions)))


def coverage(
    trials: int, *, seeds: int, questions: int = 300, spread: float = 0.02, resamples: int = 800
) -> tuple[float, float, float]:
    """Share of the 95 % intervals that hold the true ratio, with its own 95 % interval."""
    rng = np.random.default_rng(11)
    held = 0
    for trial in range(trials):
        lucky = rng.normal(size=seeds)  # a lucky seed is lucky on both rungs
        own = rng.normal(size=(2, seeds))
        shift = spread * (0.7 * lucky + 0.7 * own) * (seeds > 1)
        there = gains(rng, REAL, questions, shift[0], "real")
        home = gains(rng, SIMULATED, questions, shift[1], "sim")
        found = ratio([there], [home], Joint(trial, resamples))
        assert found is not None
        held += found.low <= REAL / SIMULATED <= found.high
    return (held / trials, *wilson(held, trials))
