"""CISPO (MiniMax-M1, arXiv 2506.13585): clip the ratio, keep the gradient of every token."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor

from ..ops.ratios import scaled, token_ratio
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import ON_POLICY, Coef, WeightedLoss, check_clip


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


class CISPOLoss(WeightedLoss):
    """CISPO: the ratio is clipped, the gradient is not. ``clip_high`` has no default."""

    registered = "cispo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high")
    scales_clip = True
    requires = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = tuple(
        r._replace(options={"clip_high": 0.2}) for r in ON_POLICY
    )

    def __init__(self, clip_high: float, clip_low: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high = float(clip_low), float(clip_high)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return cispo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_high=self.clip_high, clip_low=self.clip_low, clip_scale=batch.clip_scale,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
