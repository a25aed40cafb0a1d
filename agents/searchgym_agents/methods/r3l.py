"""R³L: each chain is tried again from its pivot, and trained on from there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, Reduction, WeightedLoss
from searchgym.rl.ops import RewardGroups, masked, spread


class OPMDLoss(WeightedLoss):
    """Loss -A log π / (1 + τ), τ ≥ 0."""

    registered = "loss:opmd"
    reductions = (Reduction({"tau": 0.0}, {"use": "reinforce", "aggregate": "token-mean"}),)

    def __init__(self, tau: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        if not 0 <= tau < math.inf:
            raise ValueError(f"tau must not be negative, got {tau}")
        self.tau = float(tau)

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        return -spread(batch.adv, batch.mask) * masked(logp, batch.mask) / (1 + self.tau), {}


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
