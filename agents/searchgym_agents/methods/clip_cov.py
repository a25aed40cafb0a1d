"""GRPO in which a few tokens that use up the entropy do not learn (Clip-Cov).

Source: Cui et al., "The Entropy Mechanism of RL for reasoning language models" (arXiv 2505.22617).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, DrawingOver, Estimate, Reduction
from searchgym.rl.ops import masked, moments, require_tokens, spread
from searchgym.seeding import derive


class ClipCov(DrawingOver):
    """Clip-Cov: ``base``'s advantages, 0 on a few random tokens of high covariance between
    log-probability and advantage (Cui et al., arXiv 2505.22617).

    They are drawn once per step, among the whole batch and under the weights that played it, where
    no ratio is clipped yet; the paper draws them anew for each mini-batch.

    Args:
        share: Share of all tokens, at least one.
        low, high: The covariances between which a token may be drawn.
        seed: Seed of the draws, with the number of the step.
    """

    registered = "advantage:clip_cov"
    needs = frozenset({"old_logp"})
    reductions = (Reduction({"low": 1e9, "high": 2e9}, {"use": "grpo"}),)

    def __init__(
        self,
        base: Any = "grpo",
        share: float = 2e-4,
        low: float = 1.0,
        high: float = 5.0,
        seed: int = 0,
    ) -> None:
        super().__init__(base, seed)
        if not 0 < share <= 1 or low >= high:
            raise ValueError(f"0 < share ≤ 1 and low < high, got {share}, {low}, {high}")
        self.share, self.low, self.high = float(share), float(low), float(high)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        base_estimate: Estimate = self.base.estimate(batch, coef)
        draw = torch.Generator().manual_seed(derive(self.seed, "clip-cov", self.steps) % (1 << 62))
        self.steps += 1
        counted = batch.mask & ~batch.reward.isnan()[:, None]
        weight = clip_cov_weight(
            base_estimate.adv, batch.need("old_logp"), counted, torch.zeros_like(counted),
            generator=draw, share=self.share, low=self.low, high=self.high,
        )  # fmt: skip
        return base_estimate._replace(adv=spread(base_estimate.adv, batch.mask) * weight)


def covariance(adv: Tensor, logp: Tensor, mask: Tensor) -> Tensor:
    """(B, T) (A_t - mean A)(logp_t - mean logp), means over unmasked tokens; 0 where masked."""
    adv, logp = spread(adv, mask), masked(logp.detach(), mask)
    product = (adv - moments(adv, mask)[0]) * (logp - moments(logp, mask)[0])
    return masked(product, mask)


def clip_cov_weight(
    adv: Tensor,
    logp: Tensor,
    mask: Tensor,
    clipped: Tensor,
    *,
    generator: torch.Generator,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
) -> Tensor:
    """Clip-Cov: (B, T) 1, and 0 for a few random tokens of high covariance, which do not learn.

    ⌊share · unmasked tokens⌋ (at least 1) of those with low < covariance < high that PPO has not
    clipped already, or all of these if there are fewer. Use as the loss's ``weight``.

    Args:
        adv: (B,) or (B, T). logp, mask: (B, T).
        clipped: (B, T) bool, from ``ops.ratios.clipped_surrogate``.
        generator: draws the tokens, on the CPU.
    """
    require_tokens(logp=logp, mask=mask, clipped=clipped)
    cov = covariance(adv, logp, mask)
    eligible = (mask > 0) & ~clipped.bool() & (cov > low) & (cov < high)
    places = eligible.flatten().nonzero()[:, 0]
    count = max(int(share * int((mask > 0).sum())), 1)
    order = torch.randperm(len(places), generator=generator)[:count].to(places.device)
    weight = torch.ones(mask.numel(), dtype=logp.dtype, device=logp.device)
    weight[places[order]] = 0
    return weight.view(mask.shape)


def kl_cov_tokens(adv: Tensor, logp: Tensor, mask: Tensor, *, share: float = 2e-4) -> Tensor:
    """KL-Cov: (B, T) 1 for the ⌊share · unmasked tokens⌋ (at least 1) of highest covariance.

    Add the loss ``kl_cov`` to an *unclipped* surrogate.
    """
    require_tokens(logp=logp, mask=mask)
    keep = (mask > 0).flatten()
    cov = covariance(adv, logp, mask).flatten().masked_fill(~keep, -torch.inf)
    count = min(max(int(share * int(keep.sum())), 1), int(keep.sum()))
    chosen = torch.zeros(mask.numel(), dtype=logp.dtype, device=logp.device)
    chosen[cov.topk(count).indices] = 1
    return chosen.view(mask.shape)
