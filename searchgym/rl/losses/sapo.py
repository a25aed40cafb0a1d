"""SAPO (arXiv 2511.20347): a sigmoid gate on the ratio instead of a hard clip."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked_mean, spread
from ..ops.ratio import token_ratio
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import ON_POLICY, Coef, WeightedLoss, check_positive


def sapo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    aggregate: Aggregate = "seq-mean-token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A · 4/τ · σ(τ(ρ - 1))``; at ρ = 1 its gradient is REINFORCE's.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        tau_positive, tau_negative: the gate's sharpness for A > 0 and for A ≤ 0.

    Returns:
        (loss, stats): mean ratio.
    """
    if tau_positive <= 0 or tau_negative <= 0:
        raise ValueError(f"both tau must be positive, got {tau_positive} and {tau_negative}")
    adv = spread(adv, mask)
    ratio = token_ratio(logp, old_logp, mask)
    tau = torch.where(adv > 0, tau_positive, tau_negative).to(ratio.dtype)
    loss = -adv * 4 / tau * torch.sigmoid(tau * (ratio - 1))
    stats = {"ratio": masked_mean(ratio, mask)}
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class SAPOLoss(WeightedLoss):
    """A soft gate on the ratio."""

    registered = "sapo"
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-mean"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"aggregate": "token-mean"}, ON_POLICY[0].to, "on-policy"),
    )

    def __init__(
        self, tau_positive: float = 1.0, tau_negative: float = 1.05, **shared: Any
    ) -> None:
        super().__init__(**shared)
        check_positive(tau_positive=tau_positive, tau_negative=tau_negative)
        self.options = {"tau_positive": tau_positive, "tau_negative": tau_negative}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return sapo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            aggregate=self.aggregate, **self.options, **self.counts(totals),
        )  # fmt: skip
