"""A coefficient that is a function of a metric of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..slots.protocols import Slot


class ByMetric(Slot):
    """``name`` follows ``metric`` of the step before along straight lines between ``points``: a
    price of searches that rises with exact match, imitation that ends where imitation is no longer
    needed (as SASR and CHORD mix supervised and reinforcement learning).

    Args:
        name: The coefficient: a loss's name, ``"lr"``, ``"w_<signal>"``, or what a part reads.
        metric: A name in ``searchgym/rl/METRICS.md`` that every step has.
        points: Pairs of metric and coefficient, by growing metric; before the first and after the
            last the coefficient stays.
        start: Coefficient of the first step, which has no metrics yet; by default the first
            point's.
        momentum: Share of the running mean that is kept at each step; 0 follows the last step.
    """

    registered = "by_metric"

    def __init__(
        self,
        name: str = "entropy",
        metric: str = "em",
        points: Sequence[Sequence[float]] = ((0.0, 0.0), (1.0, 1.0)),
        start: float | None = None,
        momentum: float = 0.9,
    ) -> None:
        table = np.array(points, float)
        if table.ndim != 2 or table.shape[1] != 2 or (np.diff(table[:, 0]) <= 0).any():
            raise ValueError(
                f"points are pairs (metric, coefficient) by growing metric, got {points}"
            )
        if not 0 <= momentum < 1 or not np.isfinite(table).all():
            raise ValueError("points are finite and momentum is in [0, 1)")
        self.name, self.metric, self.table = name, metric, table
        self.names, self.watches = frozenset({name}), frozenset({metric})
        self.start = float(table[0, 1] if start is None else start)
        self.momentum = float(momentum)
        self.mean: float | None = None

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        new = metrics.get(self.metric, np.nan)
        if np.isfinite(new):  # a step without a sound episode says nothing
            kept = new if self.mean is None else self.mean
            self.mean = self.momentum * kept + (1 - self.momentum) * new
        if self.mean is None:
            return {self.name: self.start}
        return {self.name: float(np.interp(self.mean, self.table[:, 0], self.table[:, 1]))}

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.mean = None if state["mean"] is None else float(state["mean"])
