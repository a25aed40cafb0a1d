"""GPG (arXiv 2504.02546): plain policy gradient, scaled up when few trajectories score at all."""

from __future__ import annotations

from torch import Tensor

from ..kernels.groups import RewardGroups


def gpg_advantages(reward: Tensor, group: Tensor, *, norm: float = 1.0) -> Tensor:
    """(B,) α (R - mean of the group) / ``norm``, α = scored trajectories / those with R ≠ 0."""
    groups = RewardGroups(reward, group)
    alpha = groups.scored.sum() / groups.reward.count_nonzero().clamp_min(1)
    return groups.advantage(alpha * (groups.reward - groups.mean[groups.index]) / norm)
