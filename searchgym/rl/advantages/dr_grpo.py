"""Dr.GRPO (arXiv 2503.20783): rewards compared within the group, without a divisor."""

from __future__ import annotations

from torch import Tensor

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from .base import Coef, Relative


def dr_grpo_advantages(reward: Tensor, group: Tensor) -> Tensor:
    """(B,) R - mean of the group: (G - 1) / G of the unbiased gradient."""
    groups = RewardGroups(reward, group)
    return groups.advantage(groups.reward - groups.mean[groups.index])


class DrGRPO(Relative):
    """R - mean."""

    registered = "dr_grpo"
    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(dr_grpo_advantages(batch.reward, batch.group))
