"""Supervised fine-tuning on trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked
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


class SFTLoss(WeightedLoss):
    """Loss -log π of trained tokens. Which trajectories are in the batch is the data policy's
    choice."""

    registered = "sft"
    name = "sft"

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return sft_loss(
            output.logp, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )  # fmt: skip
