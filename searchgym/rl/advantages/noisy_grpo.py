"""NoisyGRPO (arXiv 2510.21122): rewards corrected by what noise lets expect."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.groups import RewardGroups, Std, checked_std
from ..slots.batch import Batch, Estimate
from .base import Coef, Relative
from .grpo import grpo_advantages


def gain(std: Tensor, spread: float = 0.1, error: float = 0.1) -> Tensor:
    """Kalman gain K = P / (P + ``error``) with P = ``spread`` / (std² + ``spread``): near 1 where a
    group's rewards hardly differ."""
    doubt = spread / (std.square() + spread)
    return doubt / (doubt + error)


class NoisyGRPO(Relative):
    """z(S + K (N - S)) within the group, with S = z(R), N = z(1 - noise) and the Kalman gain K.

    The noise that a member was played under is a prior of how good its trajectory is; the less the
    group's rewards say, the more the prior counts. A group of equal rewards gets 0, as in GRPO,
    though the formula would leave N: members that all did alike have nothing to teach (ours).

    Args:
        spread, error: Constants of the gain (released code: .1 and .1).
    """

    registered = "noisy_grpo"
    requires = frozenset({"noise"})
    invariant = frozenset({"shift"})

    def __init__(
        self, spread: float = 0.1, error: float = 0.1, std: Std = "sample", eps: float = 1e-6
    ) -> None:
        if not spread > 0 or not error > 0:
            raise ValueError(f"spread and error are positive, got {spread} and {error}")
        self.spread, self.error, self.eps = float(spread), float(error), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        reward, group = batch.reward, batch.group
        groups = RewardGroups(reward, group)
        score = grpo_advantages(reward, group, std=self.std, eps=self.eps)
        quiet = torch.where(reward.isnan(), reward, (1 - batch.signal("noise")).to(reward.dtype))
        prior = grpo_advantages(quiet, group, std=self.std, eps=self.eps)
        weight = gain(groups.std(self.std), self.spread, self.error)[groups.index]
        mixed = torch.where(reward.isnan(), reward, score + weight * (prior - score))
        adv = grpo_advantages(mixed, group, std=self.std, eps=self.eps)
        return Estimate(groups.advantage(adv))
