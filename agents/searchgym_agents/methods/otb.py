"""Optimal token baseline (arXiv 2602.07078): a baseline for each token, weighted by uncertainty."""

from __future__ import annotations

import torch
from torch import Tensor

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate
from searchgym.rl.ops import alike, masked, reward_to_go


class OTB(AdvantageEstimator):
    """The reward to go minus the baseline that makes each token's gradient vary least (Li et al.,
    The Optimal Token Baseline, arXiv 2602.07078; as in verl).

    Of all baselines that are one number per place, the mean weighted by the squared length of the
    score so far has the least variance: G_t - Σ G_t W_t / Σ W_t over the group's trajectories that
    have a t-th trained token, with G_t the reward to go and that length W_t = Σ_{s ≤ t} (1 - 2π_s +
    Σ_v π_s(v)²). A trajectory that is alone at its t-th token gets 0 there. Places count trained
    tokens, so that what was read between them does not shift them.
    """

    registered = "advantage:otb"
    requires = frozenset({"old_logp", "sum_pi_sq"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        keep = batch.mask & ~batch.reward.isnan()[:, None]
        to_go = reward_to_go(masked(batch.token_reward(), keep), keep)
        chance = masked(batch.need("old_logp"), keep).exp()
        energy = masked(1 - 2 * chance + batch.need("sum_pi_sq"), keep).clamp_min(0)
        weight = masked(energy.cumsum(1), keep)
        _, index = torch.unique(batch.group, return_inverse=True)
        place = (keep.long().cumsum(1) - 1).clamp_min(0)  # the t of the formula
        slot = (index[:, None] * keep.shape[1] + place).flatten()
        slots = (int(index.max()) + 1) * keep.shape[1] if len(index) else 0

        def summed(values: Tensor) -> Tensor:
            kept = masked(values, keep).flatten()
            return kept.new_zeros(slots).index_add(0, slot, kept)[slot].view(keep.shape)

        total, count = summed(weight), summed(torch.ones_like(weight))
        # where all weights are 0 every token was certain: nothing can be learnt, any baseline does
        plain = summed(to_go) / count.clamp_min(1)
        baseline = torch.where(total > 0, summed(to_go * weight) / total.clamp_min(1e-30), plain)
        same = alike(torch.minimum(to_go, baseline), torch.maximum(to_go, baseline))
        return Estimate(masked(torch.where((count > 1) & ~same, to_go - baseline, 0.0), keep))
