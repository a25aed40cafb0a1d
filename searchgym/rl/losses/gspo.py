"""GSPO (arXiv 2507.18071): clip whole sequences, not tokens. Also turn by turn."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from torch import Tensor

from ..ops.ratios import clipped_surrogate, mean_ratio, scaled
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked_mean, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import Coef, WeightedLoss, check_clip


def gspo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    clip_scale: Tensor | None = None,
    turn: Tensor | None = None,
    aggregate: Aggregate = "seq-mean-token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Clipped surrogate with the ratio ``exp(mean log ρ)`` of the sequence, or of each turn.

    All tokens of a sequence (turn) are clipped together. Ratios of means are close to 1, hence the
    narrow default clip.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        clip_scale: (B, T) factors on both; None: 1. A²TGPO's are one number per turn.
        turn: (B, T) as in ``ops.turns``; None: sequences (A²TGPO gives turns).

    Returns:
        (loss, stats): mean ratio and fraction of clipped tokens.
    """
    ratio = mean_ratio(logp, old_logp, mask, turn)
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    loss, clipped = clipped_surrogate(ratio, spread(adv, mask), low=low, high=high)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean(clipped.to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class GSPOLoss(WeightedLoss):
    """One ratio for a whole trajectory, or with ``turns`` for each turn."""

    registered = "gspo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high", "turns")
    scales_clip = True
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-mean"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction(
            {"clip_low": 0.2, "clip_high": 0.2},
            {"use": "ppo", "aggregate": "seq-mean-token-mean"},
            "one token",
        ),
    )

    def __init__(
        self, clip_low: float = 3e-4, clip_high: float = 4e-4, turns: bool = False, **shared: Any
    ) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high, self.turns = float(clip_low), float(clip_high), turns

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return gspo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_low=self.clip_low, clip_high=self.clip_high, clip_scale=batch.clip_scale,
            turn=batch.turn if self.turns else None,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
