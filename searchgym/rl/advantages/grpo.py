"""GRPO (arXiv 2402.03300): rewards compared within the group."""

from __future__ import annotations

from torch import Tensor

from ..ops.groups import RewardGroups, Std, checked_std
from ..slots.batch import Batch, Estimate
from .base import Coef, Relative


def grpo_advantages(
    reward: Tensor, group: Tensor, *, std: Std = "sample", eps: float = 1e-6
) -> Tensor:
    """(B,) (R - mean of the group) / (its standard deviation + ``eps``).

    ``std``: see ``RewardGroups.std``; code mostly means "sample". With eps → 0 the advantages do
    not change under R → aR + b, a > 0; as a policy gradient they are biased.
    """
    groups = RewardGroups(reward, group)
    scale = (groups.std(std) + eps)[groups.index]
    return groups.advantage((groups.reward - groups.mean[groups.index]) / scale)


class GRPO(Relative):
    """(R - mean) / (std + ``eps``)."""

    registered = "grpo"
    invariant = frozenset({"shift", "scale"})

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(grpo_advantages(batch.reward, batch.group, std=self.std, eps=self.eps))
