"""GiGPO (arXiv 2505.10978): episodes are compared, and steps with others from the same state."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, Reduction
from searchgym.rl.ops import (
    RewardGroups,
    masked,
    over_turn,
    reward_to_go,
    spread,
    turn_ends,
)

Norm = Literal["mean", "mean_std"]


class GiGPO(AdvantageEstimator):
    """Episodes compared within their group by their returns, turns by their discounted returns with
    others of the group that began in the same state; a turn in a state of its own gets the first
    alone. Every trajectory counts once in the first (released code counts it once per step).

    Args:
        weight: Weight of the comparison of turns, or ``coef["gigpo"]``.
        gamma: Per turn.
        norm: Differences from the mean, or (``"mean_std"``) by the sample standard deviation, too.
    """

    registered = "advantage:gigpo"
    reads = frozenset({"gigpo"})
    requires = frozenset({"anchor"})
    reductions = (Reduction({"weight": 0.0}, {"use": "dr_grpo"}),)

    def __init__(self, weight: float = 1.0, gamma: float = 0.95, norm: Norm = "mean") -> None:
        if norm not in ("mean", "mean_std"):
            raise ValueError(f"norm is 'mean' or 'mean_std', got {norm!r}")
        self.weight, self.gamma = float(weight), float(gamma)
        self.norm: Norm = norm

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        turn, mask = batch.turn, batch.mask & ~batch.reward.isnan()[:, None]
        reward = masked(batch.token_reward(), mask)
        ends = turn_ends(turn, mask)
        later = reward_to_go(over_turn(reward, turn, mask), ends, self.gamma)
        rows, _ = places = ends.nonzero(as_tuple=True)
        anchor = batch.by_turn("anchor")[places]
        states = torch.stack([batch.group[rows].double(), anchor.double()], 1)
        _, state = torch.unique(states, dim=0, return_inverse=True)
        steps = torch.zeros_like(reward)
        if len(rows):
            steps = steps.index_put(places, self._compared(later[places], state))
        whole = spread(self._compared(batch.reward, batch.group), mask)
        return Estimate(whole + coef.get("gigpo", self.weight) * over_turn(steps, turn, mask))

    def _compared(self, reward: Tensor, group: Tensor) -> Tensor:
        groups = RewardGroups(reward, group)
        apart = groups.reward - groups.mean[groups.index]
        if self.norm == "mean_std":
            apart = apart / (groups.std("sample") + 1e-6)[groups.index]
        return groups.advantage(apart)
