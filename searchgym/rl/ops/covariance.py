"""Tokens whose log-probability and advantage move together: they use up the policy's entropy.

Source: Cui et al., "The Entropy Mechanism of RL for reasoning language models" (arXiv 2505.22617).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked, spread
from .shapes import require_tokens
from .whiten import moments


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
        clipped: (B, T) bool, from ``ops.clip.clipped_surrogate``.
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

    Add ``kl_loss(…, "abs", weight=this)`` to an *unclipped* surrogate.
    """
    require_tokens(logp=logp, mask=mask)
    keep = (mask > 0).flatten()
    cov = covariance(adv, logp, mask).flatten().masked_fill(~keep, -torch.inf)
    count = min(max(int(share * int(keep.sum())), 1), int(keep.sum()))
    chosen = torch.zeros(mask.numel(), dtype=logp.dtype, device=logp.device)
    chosen[cov.topk(count).indices] = 1
    return chosen.view(mask.shape)
