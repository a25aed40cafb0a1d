"""ReMax (arXiv 2310.10505): the baseline is what the greedy answer to the same prompt earns."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.mask import masked, spread
from ..kernels.returns import reward_to_go


def remax_advantages(reward: Tensor, greedy: Tensor, mask: Tensor) -> Tensor:
    """(B, T) the reward to go minus the greedy rollout's reward.

    Args:
        reward: (B, T) per token, KL penalties included.
        greedy: (B,) reward of one greedy rollout of the same task; NaN: unscorable, 0.
        mask: (B, T).
    """
    adv = reward_to_go(reward, mask) - spread(greedy, mask)
    return masked(torch.where(torch.isnan(adv), torch.zeros_like(adv), adv), mask)
