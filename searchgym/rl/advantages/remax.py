"""ReMax (arXiv 2310.10505): the baseline is what the greedy answer to the same prompt earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..ops.tokens import masked, spread
from ..ops.turns import reward_to_go
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


def remax_advantages(reward: Tensor, greedy: Tensor, mask: Tensor) -> Tensor:
    """(B, T) the reward to go minus the greedy rollout's reward.

    Args:
        reward: (B, T) per token, KL penalties included.
        greedy: (B,) reward of one greedy rollout of the same task; NaN: unscorable, 0.
        mask: (B, T).
    """
    adv = reward_to_go(reward, mask) - spread(greedy, mask)
    return masked(torch.where(torch.isnan(adv), torch.zeros_like(adv), adv), mask)


class ReMax(Slot):
    """Needs ``{use = "chains", greedy_twin = true}``."""

    registered = "remax"
    relative: ClassVar[bool] = False
    requires = frozenset({"baseline"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        greedy = torch.where(batch.reward.isnan(), batch.reward, batch.need("baseline"))
        return Estimate(remax_advantages(batch.token_reward(), greedy, batch.mask))
