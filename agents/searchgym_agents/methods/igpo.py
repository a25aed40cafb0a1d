"""GRPO with process supervision (arXiv 2402.03300, 4.1.3); IGPO's, too (arXiv 2510.14967)."""

from __future__ import annotations

import torch
from torch import Tensor

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, grpo_advantages
from searchgym.rl.ops import (
    Std,
    checked_std,
    masked,
    over_turn,
    require_batch,
    sum_of_later,
    turn_ends,
)


def grpo_step_advantages(
    reward: Tensor,
    ends: Tensor,
    group: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    std: Std = "sample",
    eps: float = 1e-6,
) -> Tensor:
    """(B, T) GRPO with process supervision (its paper, §4.1.3); also IGPO's (arXiv 2510.14967).

    All step rewards of a group are normalised together; a token's advantage is the sum over the
    steps that end with it or later, discounted by ``gamma`` per step.

    Args:
        reward: (B, T); only the places of ``ends`` are read. NaN there: the step cannot be scored.
        ends: (B, T) bool, last tokens of steps (``ops.turns.turn_ends``).
        group: (B,). mask: (B, T).
    """
    require_batch(mask, group=group)
    steps = (masked(ends.to(reward.dtype), mask) > 0).nonzero(as_tuple=True)
    scores = grpo_advantages(reward[steps], group[steps[0]], std=std, eps=eps)
    placed = torch.zeros_like(reward.detach()).index_put(steps, scores)
    return sum_of_later(placed, mask, torch.where(ends > 0, gamma, 1.0))


class GRPOSteps(AdvantageEstimator):
    """GRPO with process supervision: all rewards of a group's turns compared together, the outcome
    as its last turn's; a turn gets its own score and those of later turns. IGPO's, too."""

    registered = "advantage:grpo_steps"
    invariant = frozenset({"scale"})

    def __init__(self, gamma: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.gamma, self.eps = float(gamma), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        adv = grpo_step_advantages(
            over_turn(batch.token_reward(), batch.turn, mask),
            turn_ends(batch.turn, mask), batch.group, mask,
            gamma=self.gamma, std=self.std, eps=self.eps,
        )  # fmt: skip
        return Estimate(adv)
