"""Decisions against what should have been decided: precision, recall, F1 with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..seeding import stream
from .intervals import NOTHING, RESAMPLES, Interval, proportion, wilson


class Confusion(NamedTuple):
    """Counts of questions, by what was decided and what was right to decide."""

    hits: int
    """Number of positive decisions that were right."""
    false_alarms: int
    """Number of positive decisions that were wrong."""
    missed: int
    """Number of negative decisions where a positive one would have been right."""
    rejected: int
    """Number of negative decisions that were right."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Confusion:
        """Count pairs (decided, should have been), one for each question."""
        counts = [0, 0, 0, 0]
        for decided, should in pairs:
            counts[(0 if should else 1) if decided else (2 if should else 3)] += 1
        return cls(*counts)

    @property
    def n(self) -> int:
        return sum(self)

    @property
    def precision(self) -> Interval:
        """Share of the decisions made that were right, with Wilson's interval."""
        return proportion(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> Interval:
        """Share of the questions calling for it where it was made, with Wilson's interval."""
        return proportion(self.hits, self.hits + self.missed)

    @property
    def false_alarm_rate(self) -> Interval:
        """Share of the other questions where it was made, with Wilson's interval."""
        return proportion(self.false_alarms, self.false_alarms + self.rejected)

    def f1(self, *, seed: int = 0, level: float = 0.95, resamples: int = RESAMPLES) -> Interval:
        """2 · hits / (2 · hits + false alarms + missed); percentile interval over questions.

        NaN where there was nothing to decide and nothing was; 0 where nothing was decided rightly,
        with Wilson's bound of the share of hits h among the k questions at stake turned into F1 by
        2h / (1 + h).
        """
        stake = self.hits + self.false_alarms + self.missed
        if not stake:
            return NOTHING
        value = 2 * self.hits / (stake + self.hits)
        if self.hits in (0, stake):  # a bootstrap of equal values has no width
            low, high = (2 * h / (1 + h) for h in wilson(self.hits, stake, level))
            return Interval(value, low, high, self.n, "wilson")
        rng = stream(seed, "f1", *self)
        drawn = rng.multinomial(self.n, np.array(self) / self.n, size=resamples)[:, :3]
        hits, at_stake = drawn[:, 0], drawn.sum(axis=1)
        known = at_stake > 0
        f1 = 2 * hits[known] / (at_stake + hits)[known]
        low, high = np.quantile(f1, [(1 - level) / 2, (1 + level) / 2])
        return Interval(value, float(low), float(high), self.n, "percentile")
