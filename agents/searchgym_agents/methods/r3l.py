"""R³L: each chain is tried again from its pivot, and trained on from there."""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
from torch import Tensor

from searchgym.rl import (
    AdvantageEstimator,
    Batch,
    Coef,
    Estimate,
    Output,
    Reduction,
    Result,
    Totals,
    WeightedLoss,
    reinforce_loss,
)
from searchgym.rl.ops import Aggregate, Counts, RewardGroups


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

    registered = "loss:opmd"
    reductions = (Reduction({"tau": 0.0}, {"use": "reinforce", "aggregate": "token-mean"}),)

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


class Pivotal(AdvantageEstimator):
    """1 for a reward of at least ``solved``; else R - b, times ``raised`` where it is not negative,
    b being the mean of first and second tries. What a first try wrote before the second one left it
    is not trained on, and the second one does not hold it. Use it with ``opmd``.

    Args:
        solved: Reward of a success.
        raised: Factor on what is no success and above the mean.
    """

    registered = "advantage:pivotal"

    def __init__(self, solved: float = 1.0, raised: float = 3.0) -> None:
        self.solved, self.raised = float(solved), float(raised)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        groups = RewardGroups(batch.reward, batch.group)
        above = groups.reward - groups.mean[groups.index]
        made = torch.where(above >= 0, self.raised * above, above)
        made = torch.where(groups.reward >= self.solved, torch.ones_like(made), made)
        made = torch.where(groups.scored, made, torch.zeros_like(made))
        return Estimate(made, mask=self._after(batch))

    @staticmethod
    def _after(batch: Batch) -> torch.Tensor | None:
        """(N, T) tokens that no second try has in common with its first."""
        if batch.number is None or batch.parent is None or batch.since is None:
            return None
        left = batch.parent[None, :] == batch.number[:, None]
        never = torch.iinfo(torch.long).max
        at = torch.where(left, batch.since[None, :], torch.full_like(batch.since, never)[None, :])
        first = at.amin(1)
        pivot = torch.where(first == never, torch.zeros_like(first), first)
        return batch.mask & (batch.turn >= pivot[:, None])
