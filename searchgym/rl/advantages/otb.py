"""OTB: the optimal baseline of each token place, from the size of the gradients so far (verl)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.groups import RewardGroups
from ..ops.mask import masked
from ..ops.returns import reward_to_go
from ..ops.shapes import require_batch


def otb_advantages(
    reward: Tensor, group: Tensor, mask: Tensor, logp: Tensor, sum_pi_sq: Tensor
) -> Tensor:
    """(B, T) G_t - Σ G_t W_t / Σ W_t over the group, W_t = Σ_{s ≤ t} (1 - 2π_s + Σ_v π_v²).

    G is the reward to go. Trajectories are aligned by their n-th *unmasked* token, so search
    results of different lengths between them do not matter; where fewer than two of a group are
    that long, the advantage is 0.

    Args:
        reward, mask, logp: (B, T); ``logp`` of the sampled tokens.
        sum_pi_sq: (B, T) the sum of the squared probabilities of all tokens at each place.
        group: (B,).
    """
    require_batch(mask, group=group)
    keep = mask > 0
    returns = reward_to_go(reward, mask)
    norm = masked(1 - 2 * logp.detach().exp() + sum_pi_sq.detach(), mask)
    weight = masked(norm.cumsum(1), mask)
    place = keep.long().cumsum(1) - 1  # (B, T) n of the n-th unmasked token
    cell = group[:, None] * mask.shape[1] + place
    adv = torch.zeros_like(returns)
    cells = RewardGroups(returns[keep], cell[keep])
    total = cells.sum(weight[keep])
    mean = cells.sum(weight[keep] * cells.reward) / total.clamp_min(1e-12)
    adv[keep] = cells.advantage(cells.reward - mean[cells.index])
    return adv
