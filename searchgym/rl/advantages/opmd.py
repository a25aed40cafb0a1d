"""OPMD: online policy mirror descent, as in Trinity-RFT. Use ``losses.opmd`` with it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Relative


def opmd_advantages(
    reward: Tensor,
    group: Tensor,
    *,
    tau: float = 1.0,
    baseline: Literal["mean", "logavgexp"] = "mean",
) -> Tensor:
    """(B,) R - the group's mean, or - τ log mean exp(R / τ), which tends to the best for τ → 0."""
    groups = RewardGroups(reward, group)
    if baseline == "mean":
        return groups.advantage(groups.reward - groups.mean[groups.index])
    if baseline != "logavgexp":
        raise ValueError(f"unknown baseline {baseline!r}; known: mean, logavgexp")
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    known = torch.where(groups.scored, groups.reward, torch.full_like(groups.reward, -torch.inf))
    best = torch.full_like(groups.mean, -torch.inf).scatter_reduce(0, groups.index, known, "amax")
    best = torch.where(groups.count > 0, best, groups.mean)
    odds = ((groups.reward - best[groups.index]) / tau).exp()
    soft = best + tau * (groups.sum(odds) / groups.count.clamp_min(1)).clamp_min(1e-38).log()
    return groups.advantage(groups.reward - soft[groups.index])


class OPMD(Relative):
    """R - the group's mean or soft maximum."""

    registered = "opmd"
    invariant = frozenset({"shift"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"baseline": "mean"}, {"use": "dr_grpo"}),
    )

    def __init__(
        self, tau: float = 1.0, baseline: Literal["mean", "logavgexp"] = "logavgexp"
    ) -> None:
        if tau <= 0 or baseline not in ("mean", "logavgexp"):
            raise ValueError(
                f"tau is positive, baseline 'mean' or 'logavgexp'; got {tau}, {baseline!r}"
            )
        self.options: dict[str, Any] = {"tau": float(tau), "baseline": baseline}

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(opmd_advantages(batch.reward, batch.group, **self.options))
