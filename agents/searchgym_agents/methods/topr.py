"""TOPR (arXiv 2503.14286): importance sampling that truncates failures only."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from searchgym.rl import ON_POLICY, Batch, Coef, Output, Result, Totals, WeightedLoss
from searchgym.rl.ops import (
    Aggregate,
    Counts,
    aggregate_tokens,
    masked,
    masked_mean,
    require_batch,
    spread,
    token_ratio,
)


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


class TOPRLoss(WeightedLoss):
    """REINFORCE for rewarded trajectories, ratios truncated at 1 for the others."""

    registered = "loss:topr"
    requires = frozenset({"old_logp"})
    reductions = ON_POLICY

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return topr_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            positive=batch.reward > 0, aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
