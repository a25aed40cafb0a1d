"""Rewards of turns that only some episodes are paid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals


class Gated(Slot):
    """Pays turns what they earned so far only where ``signal`` is at least ``threshold``, and
    ``otherwise`` times that elsewhere; the outcome stays. ``R · 1[correct]`` of process rewards,
    which a wrong answer must not collect.

    Args:
        signal: (M,), e.g. ``em`` of the signal ``parts``.
        otherwise: Share that is paid below the threshold.
    """

    registered = "gated"
    gates: ClassVar[bool] = True

    def __init__(self, signal: str = "em", threshold: float = 0.5, otherwise: float = 0.0) -> None:
        if not 0 <= otherwise <= 1:
            raise ValueError(f"otherwise is a share from 0 to 1, got {otherwise}")
        self.signal, self.threshold, self.otherwise = signal, float(threshold), float(otherwise)
        self.requires = frozenset({signal})

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        if rewards.turns is None:
            return rewards
        share = np.where(signals[self.signal] >= self.threshold, 1.0, self.otherwise)
        return Rewards(rewards.outcome, rewards.turns * share[:, None])
