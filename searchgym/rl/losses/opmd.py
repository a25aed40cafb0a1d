"""OPMD: REINFORCE whose steps a temperature makes smaller (Trinity-RFT)."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts
from .reinforce import reinforce_loss


def opmd_loss(
    logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    tau: float = 1.0,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A log π / (1 + τ)``; advantages from ``advantages.opmd`` with the same τ ≥ 0.

    Args:
        logp, mask: (B, T). adv: (B,) or (B, T).
    """
    if tau < 0:
        raise ValueError(f"tau must not be negative, got {tau}")
    loss, stats = reinforce_loss(logp, adv, mask, aggregate=aggregate, **counts)
    return loss / (1 + tau), stats
