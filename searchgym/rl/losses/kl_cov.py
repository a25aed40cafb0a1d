"""KL-Cov's loss (arXiv 2505.22617): tokens that use up the entropy are held where they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import WeightedLoss
from .kl import kl_loss


class KLCovLoss(WeightedLoss):
    """``|log π - log π_old|`` on the tokens that the estimator ``kl_cov`` picked. What the sum is
    divided by counts all tokens."""

    registered = "kl_cov"
    name = "kl_cov"
    requires = frozenset({"old_logp", "picked"})

    def __init__(self, weight: float = 1.0, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return kl_loss(
            output.logp, batch.need("old_logp"), batch.mask, "abs",
            weight=batch.note("picked").to(output.logp.dtype),
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
