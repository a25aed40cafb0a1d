"""REINFORCE: the plain policy gradient, without ratio or clip. Also RLOO's, ReMax's."""

from __future__ import annotations

from typing import ClassVar, Unpack

from torch import Tensor

from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import Coef, WeightedLoss


def reinforce_loss(
    logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "seq-mean-token-sum",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A log π``. The default aggregation is the one whose gradient is that of the mean return.

    Args:
        logp, mask: (B, T). adv: (B,) or (B, T).

    Returns:
        (loss, {}).
    """
    loss = -spread(adv, mask) * masked(logp, mask)
    return aggregate_tokens(loss, mask, aggregate, **counts), {}


class ReinforceLoss(WeightedLoss):
    """Loss -A log π."""

    registered = "reinforce"
    default: ClassVar[Aggregate] = "seq-mean-token-sum"

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return reinforce_loss(
            output.logp, batch.need("adv"), batch.mask,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
