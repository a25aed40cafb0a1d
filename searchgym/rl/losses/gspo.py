"""GSPO (arXiv 2507.18071): clip whole sequences, not tokens. Also turn by turn."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.clip import clipped_surrogate, scaled
from ..kernels.mask import masked_mean, spread
from ..kernels.ratio import mean_ratio


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
        turn: (B, T) as in ``kernels.turns``; None: sequences (A²TGPO gives turns).

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
