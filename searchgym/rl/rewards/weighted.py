"""A weighted sum of signals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals


class Weighted(Slot):
    """Adds ``Σ weight · signal`` to the reward. ``coef["w_<signal>"]`` replaces a weight.

    Args:
        weights: Signal → weight. Default: the environment's return.
    """

    registered = "weighted"

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = {k: float(v) for k, v in (weights or {"return": 1.0}).items()}
        self.requires = frozenset(self.weights)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        outcome = np.array(rewards.outcome)
        for name, weight in self.weights.items():
            outcome = outcome + coef.get(f"w_{name}", weight) * signals[name]
        return Rewards(outcome, rewards.turns)
