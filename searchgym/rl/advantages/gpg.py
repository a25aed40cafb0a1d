"""GPG (arXiv 2504.02546): plain policy gradient, scaled up when few trajectories score at all."""

from __future__ import annotations

from torch import Tensor

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from .base import Coef, Relative


def gpg_advantages(reward: Tensor, group: Tensor, *, norm: float = 1.0) -> Tensor:
    """(B,) α (R - mean of the group) / ``norm``, α = scored trajectories / those with R ≠ 0."""
    groups = RewardGroups(reward, group)
    alpha = groups.scored.sum() / groups.reward.count_nonzero().clamp_min(1)
    return groups.advantage(alpha * (groups.reward - groups.mean[groups.index]) / norm)


class GPG(Relative):
    """R - mean, scaled by the share that scored."""

    registered = "gpg"

    def __init__(self, norm: float = 1.0) -> None:
        if norm <= 0:
            raise ValueError(f"norm must be positive, got {norm}")
        self.norm = float(norm)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(gpg_advantages(batch.reward, batch.group, norm=self.norm))
