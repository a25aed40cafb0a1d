"""Supervised fine-tuning on trajectories, and RAFT (arXiv 2304.06767): on the rewarded ones."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.mask import masked
from ..kernels.shapes import require_batch


def sft_loss(
    logp: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-log π`` of unmasked tokens (B, T): the same mask as in RL, so results are not learnt."""
    return aggregate_tokens(-masked(logp, mask), mask, aggregate, **counts), {}


def raft_loss(
    logp: Tensor,
    mask: Tensor,
    reward: Tensor,
    *,
    threshold: float = 0.5,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """:func:`sft_loss` on trajectories with ``reward`` ≥ ``threshold``; 0 if there are none.

    Args:
        logp, mask: (B, T). reward: (B,); NaN is not kept.

    Returns:
        (loss, stats): the fraction kept.
    """
    require_batch(mask, reward=reward)
    kept = reward >= threshold
    mask = torch.where(kept[:, None], mask, torch.zeros_like(mask))
    loss, _ = sft_loss(logp, mask, aggregate=aggregate, **counts)
    return loss, {"kept": float(kept.sum() / max(len(kept), 1))}
