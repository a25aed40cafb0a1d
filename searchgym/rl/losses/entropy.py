"""An entropy bonus: keeps a policy from settling too early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from torch import Tensor

from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import WeightedLoss


def entropy_loss(
    entropy: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Negative aggregated entropy (B, T): add it to the loss with a small positive coefficient.

    Returns:
        (loss, stats): the mean entropy over unmasked tokens.
    """
    stats = {"entropy": masked_mean(entropy, mask)}
    return -aggregate_tokens(masked(entropy, mask), mask, aggregate, **counts), stats


class EntropyLoss(WeightedLoss):
    """A bonus: minus the entropy of the distributions that tokens were drawn from."""

    registered = "entropy"
    name = "entropy"
    requires = frozenset({"entropy"})

    def __init__(self, weight: float = 0.001, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        if output.entropy is None:
            raise ValueError("the entropy bonus needs the model's entropies")
        return entropy_loss(
            output.entropy, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )
