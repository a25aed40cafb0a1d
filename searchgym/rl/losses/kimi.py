"""Kimi k1.5 (arXiv 2501.12599): policy mirror descent on whole trajectories; off-policy is fine."""

from __future__ import annotations

from typing import ClassVar, Unpack

from torch import Tensor

from ..ops.aggregate import Aggregate, Counts, aggregate_tokens
from ..ops.mask import masked_mean
from ..ops.ratio import log_ratio
from ..ops.shapes import require_batch
from ..slots.batch import Batch, Mean, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import Coef, WeightedLoss, check_positive


def kimi_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    tau: float = 0.1,
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``(A - τ Δ)² / (2 τ)`` with Δ = log π(y) - log π_old(y), mean over trajectories.

    Its gradient is ``-(A - τ Δ) ∇ log π(y)``: that of ``-[A log π - τ/2 Δ²]``, and at Δ = 0 that of
    REINFORCE with A as the advantage. The policy of the iteration's start is old and reference.

    Args:
        logp, old_logp, mask: (B, T).
        adv: (B,) R - mean of the group (``dr_grpo_advantages``).
        tau: how much a trajectory's log-ratio costs.

    Returns:
        (loss, stats): the mean squared form (A - τ Δ)² and the mean Δ, over these trajectories.
    """
    require_batch(mask, adv=adv)
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    delta = log_ratio(logp, old_logp, mask).sum(1, keepdim=True)
    alive = (mask > 0).any(1, keepdim=True)  # one number per trajectory from here on
    error = adv.detach()[:, None] - tau * delta
    squared = aggregate_tokens(error.square(), alive, "seq-mean-token-sum", **counts)
    stats = {
        "squared": masked_mean(error.detach().square(), alive),
        "log_ratio": masked_mean(delta.detach(), alive),
    }
    return squared / (2 * tau), stats


class KimiLoss(WeightedLoss):
    """Squared distance to the optimal policy's log-ratio; advantages one per trajectory."""

    registered = "kimi"
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-sum"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({}, {"use": "reinforce"}, "on-policy"),
    )

    def __init__(self, tau: float = 0.1, weight: float = 1.0) -> None:
        super().__init__(weight)
        check_positive(tau=tau)
        self.tau = float(tau)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        loss, stats = kimi_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            tau=self.tau, **self.counts(totals),
        )  # fmt: skip
        count = batch.totals.sequences
        return loss, {name: Mean(value * count, count) for name, value in stats.items()}
