"""Rewards compared within the group: GRPO, Dr.GRPO, RLOO, REINFORCE++-baseline."""

from __future__ import annotations

from torch import Tensor

from ..ops.groups import RewardGroups, Std, checked_std
from ..ops.tokens import spread, whiten
from ..slots.batch import Batch, Estimate
from ..slots.protocols import AdvantageEstimator
from .base import Coef, Relative


def grpo_advantages(
    reward: Tensor, group: Tensor, *, std: Std = "sample", eps: float = 1e-6
) -> Tensor:
    """(B,) (R - mean of the group) / (its standard deviation + ``eps``).

    ``std``: see ``RewardGroups.std``; code mostly means "sample". With eps → 0 the advantages do
    not change under R → aR + b, a > 0; as a policy gradient they are biased.
    """
    groups = RewardGroups(reward, group)
    scale = (groups.std(std) + eps)[groups.index]
    return groups.advantage((groups.reward - groups.mean[groups.index]) / scale)


class GRPO(Relative):
    """(R - mean) / (std + ``eps``)."""

    registered = "grpo"
    invariant = frozenset({"shift", "scale"})

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(grpo_advantages(batch.reward, batch.group, std=self.std, eps=self.eps))


def dr_grpo_advantages(reward: Tensor, group: Tensor) -> Tensor:
    """(B,) R - mean of the group: (G - 1) / G of the unbiased gradient."""
    groups = RewardGroups(reward, group)
    return groups.advantage(groups.reward - groups.mean[groups.index])


class DrGRPO(Relative):
    """R - mean."""

    registered = "dr_grpo"
    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(dr_grpo_advantages(batch.reward, batch.group))


def rloo_advantages(reward: Tensor, group: Tensor) -> Tensor:
    """(B,) R_i - mean of R_j, j ≠ i, in its group = G / (G - 1) · (R_i - mean). Unbiased."""
    groups = RewardGroups(reward, group)
    factor = (groups.count / (groups.count - 1).clamp_min(1))[groups.index]
    return groups.advantage(factor * (groups.reward - groups.mean[groups.index]))


class RLOO(Relative):
    """R - mean of the others."""

    registered = "rloo"
    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(rloo_advantages(batch.reward, batch.group))


class ReinforcePPBaseline(AdvantageEstimator):
    """The reward minus its group's mean, whitened over the batch's tokens: so a group of equal
    rewards gets what the batch's mean is away from 0."""

    registered = "reinforce_pp_baseline"
    invariant = frozenset({"shift", "scale"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        groups = RewardGroups(batch.reward, batch.group)
        adv = groups.advantage(groups.reward - groups.mean[groups.index])
        counted = batch.mask & groups.scored[:, None]
        return Estimate(whiten(spread(adv, batch.mask), counted))
