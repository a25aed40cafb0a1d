"""The critic's squared error, clipped as in PPO."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked, masked_mean


def value_loss(
    value: Tensor,
    returns: Tensor,
    old_value: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.5,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``½ max((V - R)², (clip(V, V_old ± clip) - R)²)``.

    Args:
        value: (B, T) with gradient. returns, old_value: (B, T), from when the data were sampled.
        mask: (B, T); for values of turns, the first tokens of turns (``turn_starts``).

    Returns:
        (loss, stats): the mean value and the fraction of tokens where the clip is active.
    """
    if clip <= 0:
        raise ValueError(f"clip must be positive, got {clip}")
    value = masked(value, mask)
    returns, old = masked(returns, mask).detach(), masked(old_value, mask).detach()
    near = torch.minimum(torch.maximum(value, old - clip), old + clip)
    plain, limited = (value - returns).square(), (near - returns).square()
    loss = torch.maximum(plain, limited) / 2
    stats = {
        "value": masked_mean(value, mask),
        "clipped": masked_mean((limited > plain).to(value.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats
