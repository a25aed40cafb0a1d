"""GRPO with process supervision (arXiv 2402.03300, 4.1.3); IGPO's, too (arXiv 2510.14967)."""

from __future__ import annotations

import torch

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, grpo_advantages
from searchgym.rl.ops import (
    Std,
    checked_std,
    over_turn,
    sum_of_later,
    turn_ends,
)


class GRPOSteps(AdvantageEstimator):
    """GRPO with process supervision: all rewards of a group's turns compared together, the outcome
    as its last turn's; a turn gets its own score and those of later turns, discounted by ``gamma``
    per turn. IGPO's, too."""

    registered = "advantage:grpo_steps"
    invariant = frozenset({"scale"})

    def __init__(self, gamma: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.gamma, self.eps = float(gamma), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        reward, ends = (
            over_turn(batch.token_reward(), batch.turn, mask),
            turn_ends(batch.turn, mask),
        )
        turns = ends.nonzero(as_tuple=True)
        group = batch.group[turns[0]]
        scores = grpo_advantages(reward[turns], group, std=self.std, eps=self.eps)
        placed = torch.zeros_like(reward).index_put(turns, scores)
        return Estimate(sum_of_later(placed, mask, torch.where(ends, self.gamma, 1.0)))
