"""OPMD: REINFORCE whose steps a temperature makes smaller (Trinity-RFT)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

from torch import Tensor

from ..ops.aggregate import Aggregate, Counts
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import Coef, WeightedLoss
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


class OPMDLoss(WeightedLoss):
    """Loss -A log π / (1 + τ)."""

    registered = "opmd"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"tau": 0.0}, {"use": "reinforce", "aggregate": "token-mean"}),
    )

    def __init__(self, tau: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        if not 0 <= tau < math.inf:
            raise ValueError(f"tau must not be negative, got {tau}")
        self.tau = float(tau)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return opmd_loss(
            output.logp, batch.need("adv"), batch.mask,
            tau=self.tau, aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
