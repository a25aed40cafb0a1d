"""OPO (arXiv 2505.23585): the baseline of least variance when gradients grow with length."""

from __future__ import annotations

from torch import Tensor

from ..kernels.groups import RewardGroups
from ..kernels.shapes import require_rows


def opo_advantages(reward: Tensor, group: Tensor, length: Tensor) -> Tensor:
    """(B,) R_i - Σ L_j R_j / Σ L_j over its group. Made for strictly on-policy training.

    Args:
        length: (B,) unmasked tokens of each trajectory; those without any get 0.
    """
    require_rows(reward=reward, length=length)
    groups = RewardGroups(reward, group)
    length = length.to(groups.reward.dtype)
    total = groups.sum(length).clamp_min(1)
    baseline = groups.sum(length * groups.reward) / total
    return groups.advantage((groups.reward - baseline[groups.index]) * (length > 0))
