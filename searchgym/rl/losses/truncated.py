"""Truncated importance sampling, and TOPR (arXiv 2503.14286), which truncates failures only."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.mask import masked, masked_mean, spread
from ..kernels.ratio import token_ratio
from ..kernels.shapes import require_batch


def tis_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    cap: float = 1.0,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A · sg(min(ρ, cap)) · log π``: off-policy data, without the variance of large ratios.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).

    Returns:
        (loss, stats): mean ratio and fraction of truncated tokens.
    """
    if cap <= 0:
        raise ValueError(f"cap must be positive, got {cap}")
    ratio = token_ratio(logp, old_logp, mask).detach()
    loss = -spread(adv, mask) * ratio.clamp_max(cap) * masked(logp, mask)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean((ratio > cap).to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


def topr_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    positive: Tensor,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A log π`` for rewarded trajectories, :func:`tis_loss` with cap 1 for the others.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        positive: (B,) bool, trajectories with reward > 0.

    Returns:
        (loss, stats): mean ratio and fraction of truncated tokens.
    """
    require_batch(mask, positive=positive)
    ratio = token_ratio(logp, old_logp, mask).detach()
    failed = ~positive.bool()[:, None]
    weight = torch.where(failed, ratio.clamp_max(1), torch.ones_like(ratio))
    loss = -spread(adv, mask) * weight * masked(logp, mask)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean(((ratio > 1) & failed).to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats
