"""Supervised fine-tuning on trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack, get_args

from torch import Tensor

from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import WeightedLoss

Weighting = Literal["none", "p(1-p)"]


def sft_loss(
    logp: Tensor,
    mask: Tensor,
    *,
    weight: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-log π`` of unmasked tokens (B, T): the same mask as in RL, so results are not learnt.
    ``weight``: (B, T) factors, without gradient; divisors do not change."""
    loss = -masked(logp, mask)
    if weight is not None:
        loss = loss * masked(weight.detach(), mask)
    return aggregate_tokens(loss, mask, aggregate, **counts), {}


class SFTLoss(WeightedLoss):
    """Loss -log π of trained tokens. Which trajectories are in the batch is the data policy's
    choice.

    Args:
        weighting: Factor on each token: none, or ``"p(1-p)"`` of its probability p under the
            current weights, which keeps away from what is certain already and from what would be a
            shock (CHORD's φ, arXiv 2508.11408).
        entropy: Measure the mean entropy at these tokens, too: the metric ``sft/entropy``.
    """

    registered = "sft"
    name = "sft"

    def __init__(self, weighting: Weighting = "none", entropy: bool = False, **shared: Any) -> None:
        super().__init__(**shared)
        if weighting not in get_args(Weighting):
            raise ValueError(f"weighting is 'none' or 'p(1-p)', got {weighting!r}")
        self.weighting: Weighting = weighting
        self.requires = frozenset({"old_entropy"} if entropy else ())

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        chance = masked(output.logp.detach(), batch.mask).exp()
        weight = chance * (1 - chance) if self.weighting == "p(1-p)" else None
        loss, stats = sft_loss(
            output.logp, batch.mask, weight=weight, aggregate=self.aggregate, **self.counts(totals)
        )
        if self.requires:
            stats = {"entropy": masked_mean(batch.need("old_entropy"), batch.mask)}
        return loss, stats
