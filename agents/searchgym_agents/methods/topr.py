"""TOPR (arXiv 2503.14286): importance sampling that truncates failures only."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from searchgym.rl import ON_POLICY, Batch, WeightedLoss
from searchgym.rl.ops import masked, masked_mean, spread, token_ratio


class TOPRLoss(WeightedLoss):
    """REINFORCE for rewarded trajectories, ratios truncated at 1 for the others. Statistics: the
    mean ratio and the fraction of truncated tokens."""

    registered = "loss:topr"
    requires = frozenset({"old_logp"})
    reductions = ON_POLICY

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask = batch.mask
        ratio = token_ratio(logp, batch.need("old_logp"), mask).detach()
        failed = ~(batch.reward > 0)[:, None]
        weight = torch.where(failed, ratio.clamp_max(1), torch.ones_like(ratio))
        return -spread(batch.adv, mask) * weight * masked(logp, mask), {
            "ratio": masked_mean(ratio, mask),
            "clipped": masked_mean(((ratio > 1) & failed).to(ratio.dtype), mask),
        }
