"""Kimi k1.5's reward for being shorter than the group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ..ops.shaping import length_reward
from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals


class Shorter(Slot):
    """Adds ``weight`` (or ``coef["shorter"]``, to warm it up) times ``length_reward``. Members that
    cannot be scored are left out of the lengths that are compared.

    Args:
        correct: The signal that says so, where it is at least ``threshold``.
    """

    registered = "shorter"
    reads = frozenset({"shorter"})

    def __init__(self, weight: float = 1.0, correct: str = "em", threshold: float = 0.5) -> None:
        self.weight, self.correct, self.threshold = float(weight), correct, float(threshold)
        self.requires = frozenset({"length", correct})

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        known = ~np.isnan(rewards.outcome)
        more = np.zeros(len(known))
        if known.any():
            gain = length_reward(
                torch.from_numpy(signals["length"][known]),
                torch.from_numpy(signals[self.correct][known] >= self.threshold),
                torch.zeros(int(known.sum()), dtype=torch.long),
            )
            more[known] = coef.get("shorter", self.weight) * gain.double().numpy()
        return Rewards(np.asarray(rewards.outcome + more), rewards.turns)
