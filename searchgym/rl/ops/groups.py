"""Statistics of rewards by group: the trajectories of one task.

A reward of NaN means "cannot be scored" (a judge failed, an engine was down): such a trajectory
counts in no mean and gets advantage 0.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .tokens import require_rows

Std = Literal["sample", "population"]


def checked_std(how: Std) -> Std:
    """``ValueError`` unless it is one."""
    if how not in get_args(Std):
        raise ValueError(f"std is 'sample' or 'population', got {how!r}")
    return how


def alike(low: Any, high: Any) -> Any:
    """True where two numbers, or those of arrays or tensors, are equal but for rounding: sums of
    the same parts in another order, or what is left when they cancel out in float32."""
    return high - low <= 1e-6 * (abs(low) + abs(high)) + 1e-7


def all_alike(values: NDArray[np.float64]) -> bool:
    """True if all numbers that are known are :func:`alike`."""
    known = values[~np.isnan(values)]
    return not len(known) or bool(alike(known.min(), known.max()))


class RewardGroups:
    """A batch's rewards, by group.

    Args:
        reward: (B,) one number per trajectory; NaN: unscorable.
        group: (B,) integers; equal numbers mean the same group, in any order.

    Attributes:
        reward: (B,) detached, 0 where unscorable.
        index: (B,) each trajectory's group as 0 … G-1.
        scored: (B,) bool.
        count: (G,) scorable members.
        mean: (G,) their mean reward; 0 without any.
        differs: (B,) bool: scored, and the group's rewards are not all :func:`alike`. Nothing
            else can have a group-relative advantage; a group of one cannot.
    """

    def __init__(self, reward: Tensor, group: Tensor) -> None:
        require_rows(reward=reward, group=group)
        if bool(torch.isinf(reward).any()):
            raise ValueError("a reward is infinite; use NaN for what cannot be scored")
        reward = reward.detach()
        if not reward.is_floating_point():
            reward = reward.to(torch.get_default_dtype())
        self.scored = ~torch.isnan(reward)
        self.reward = torch.where(self.scored, reward, torch.zeros_like(reward))
        names, self.index = torch.unique(group, return_inverse=True)
        self._zero = torch.zeros(len(names), dtype=reward.dtype, device=reward.device)
        self.count = self.sum(self.scored.to(reward.dtype))
        self.mean = self.sum(self.reward) / self.count.clamp_min(1)
        infinite = torch.full_like(self.reward, float("inf"))
        low = torch.where(self.scored, self.reward, infinite)
        high = torch.where(self.scored, self.reward, -infinite)
        low = (self._zero + float("inf")).scatter_reduce(0, self.index, low, "amin")
        high = (self._zero - float("inf")).scatter_reduce(0, self.index, high, "amax")
        self.differs = self.scored & ~alike(low, high)[self.index]

    def sum(self, values: Tensor) -> Tensor:
        """(G,) sums of (B,) values over each group's scored members."""
        kept = torch.where(self.scored, values, torch.zeros_like(values))
        return self._zero.index_add(0, self.index, kept)

    def std(self, how: Std = "sample") -> Tensor:
        """(G,) standard deviations, divided by n - 1 (verl, TRL) or n (some papers); 0 for n = 1.

        Which one is meant differs between papers and code: with rewards [1, 0, 0, 0] a winner gets
        1.5 or 1.732.
        """
        if how not in ("sample", "population"):
            raise ValueError(f"unknown std {how!r}; known: sample, population")
        squares = self.sum((self.reward - self.mean[self.index]).square())
        degrees = self.count - 1 if how == "sample" else self.count
        return (squares / degrees.clamp_min(1)).sqrt()

    def advantage(self, values: Tensor) -> Tensor:
        """(B,) ``values``, exactly 0 where a group has nothing to compare."""
        return torch.where(self.differs, values, torch.zeros_like(values))
