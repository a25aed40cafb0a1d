"""CISPO (MiniMax-M1, arXiv 2506.13585): clip the ratio, keep the gradient of every token."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.clip import scaled
from ..kernels.mask import masked, masked_mean, spread
from ..kernels.ratio import token_ratio


def cispo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_high: float,
    clip_low: float = 1.0,
    clip_scale: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A · sg(clip(ρ, 1 - clip_low, 1 + clip_high)) · log π``, sg: no gradient.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        clip_high: to be tuned (ROLL: .1); no default is known to be good.
        clip_low: 1 clips nothing from below, as in the paper (ROLL: .1).
        clip_scale: (B, T) factors on both; None: 1.

    Returns:
        (loss, stats): mean ratio and fraction of tokens whose ratio was cut.
    """
    ratio = token_ratio(logp, old_logp, mask).detach()
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    cut = ratio.clamp(*(torch.as_tensor(x, dtype=ratio.dtype) for x in (1 - low, 1 + high)))
    loss = -spread(adv, mask) * cut * masked(logp, mask)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean((cut != ratio).to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats
