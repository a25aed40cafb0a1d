"""Truncated importance sampling: off-policy data without the variance of large ratios."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked, masked_mean, spread
from ..ops.ratio import token_ratio
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import ON_POLICY, Coef, WeightedLoss, check_positive


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


class TISLoss(WeightedLoss):
    """Truncated importance sampling."""

    registered = "tis"
    requires = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = ON_POLICY

    def __init__(self, cap: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        check_positive(cap=cap)
        self.cap = float(cap)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return tis_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            cap=self.cap, aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
