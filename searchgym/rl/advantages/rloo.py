"""RLOO (arXiv 2402.14740): each trajectory's baseline is the mean reward of the others."""

from __future__ import annotations

from torch import Tensor

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from .base import Coef, Relative


def rloo_advantages(reward: Tensor, group: Tensor) -> Tensor:
    """(B,) R_i - mean of R_j, j ≠ i, in its group = G / (G - 1) · (R_i - mean). Unbiased."""
    groups = RewardGroups(reward, group)
    factor = (groups.count / (groups.count - 1).clamp_min(1))[groups.index]
    return groups.advantage(factor * (groups.reward - groups.mean[groups.index]))


class RLOO(Relative):
    """R - mean of the others."""

    registered = "rloo"
    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(rloo_advantages(batch.reward, batch.group))
