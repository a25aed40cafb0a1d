"""Supervised fine-tuning on trajectories, and RAFT (arXiv 2304.06767): on the rewarded ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import torch
from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked
from ..ops.shapes import require_batch
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import WeightedLoss


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


class SFTLoss(WeightedLoss):
    """-log π of trained tokens. Which trajectories are in the batch is the data policy's choice."""

    registered = "sft"
    name = "sft"

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return sft_loss(
            output.logp, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )  # fmt: skip
