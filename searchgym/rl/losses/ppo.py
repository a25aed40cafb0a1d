"""The clipped surrogate (PPO, GRPO, DAPO …), optionally with dual clip."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor

from ..ops.ratios import clipped_surrogate, kl, scaled, token_ratio
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import ON_POLICY, Coef, WeightedLoss, check_clip


def ppo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    clip_scale: Tensor | None = None,
    dual_clip: float | None = None,
    weight: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Clipped surrogate; GRPO aggregates "seq-mean-token-mean", Dr.GRPO "seq-mean-token-sum-norm".

    Args:
        logp: (B, T) log-probabilities under the policy that is trained.
        old_logp: (B, T) the same under the policy that sampled; on-policy: ``logp.detach()``.
        adv: (B,) or (B, T) advantages.
        mask: (B, T) 1 where the policy acted.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high] (DAPO: .2, .28).
        clip_scale: (B, T) factors on both, per token; None: 1.
        dual_clip: for negative advantages the loss is at most ``-dual_clip * adv`` (> 1).
        weight: (B, T) factors on the loss per token, e.g. ``truncated_weight`` or
            ``clip_cov_weight``; detached; divisors do not change.

    Returns:
        (loss, stats): stats are the mean ratio, the fraction of clipped tokens and k3 to the old
        policy, all over unmasked tokens.
    """
    adv = spread(adv, mask)
    ratio = token_ratio(logp, old_logp, mask)
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    loss, clipped = clipped_surrogate(ratio, adv, low=low, high=high, dual=dual_clip)
    if weight is not None:
        loss = loss * spread(weight, mask)
    with torch.no_grad():
        stats = {
            "ratio": masked_mean(ratio, mask),
            "clipped": masked_mean(clipped.to(ratio.dtype), mask),
            "kl_old": masked_mean(kl(masked(old_logp, mask), masked(logp, mask), "k3"), mask),
        }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class PPOLoss(WeightedLoss):
    """The clipped surrogate; also GRPO's, Dr.GRPO's, DAPO's, RLOO's, REINFORCE++'s."""

    registered = "ppo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high", "dual_clip")
    requires = frozenset({"old_logp"})
    scales_clip = True
    reductions: ClassVar[tuple[Reduction, ...]] = ON_POLICY

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        if dual_clip is not None and dual_clip <= 1:
            raise ValueError(f"dual_clip must be greater than 1, got {dual_clip}")
        self.options: dict[str, Any] = {
            "clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip,
        }  # fmt: skip

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return ppo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_scale=batch.clip_scale, aggregate=self.aggregate,
            **self.options, **self.counts(totals),
        )  # fmt: skip
