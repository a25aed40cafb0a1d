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
    require_batch,
    reward_to_go,
    spread,
    turn_ends,
)

Norm = Literal["mean", "mean_std"]


def gigpo_advantages(
    total: Tensor,
    reward: Tensor,
    anchor: Tensor,
    group: Tensor,
    turn: Tensor,
    mask: Tensor,
    *,
    weight: float = 1.0,
    gamma: float = 0.95,
    norm: Norm = "mean",
    eps: float = 1e-6,
) -> Tensor:
    """(B, T) ``A_E + weight · A_S``, the same for all tokens of a turn.

    A_E compares returns of whole episodes; A_S the discounted returns of all steps of the group
    that began in the same state. A step in a state of its own has A_S = 0. Every
    trajectory counts once in A_E (released code counts it once per step).

    Args:
        total: (B,) what each trajectory earned in all; NaN: cannot be scored.
        reward: (B, T) where it is paid; a step's reward is the sum over its turn.
        anchor: (B, T) each token's turn's state: any numbers, compared within groups.
        group: (B,). turn, mask: (B, T).
        gamma: Per turn.
        norm: Differences from the mean, divided by the sample standard deviation or not.
    """
    require_batch(mask, group=group, total=total)
    if norm not in ("mean", "mean_std"):
        raise ValueError(f"norm is 'mean' or 'mean_std', got {norm!r}")
    mask = (mask > 0) & ~total.isnan()[:, None]
    reward = masked(reward.detach(), mask)
    ends = turn_ends(turn, mask)
    later = reward_to_go(over_turn(reward, turn, mask), ends, gamma)
    rows, _ = places = ends.nonzero(as_tuple=True)
    states = torch.stack([group[rows].double(), anchor[places].double()], 1)
    _, state = torch.unique(states, dim=0, return_inverse=True)
    steps = torch.zeros_like(reward)
    if len(rows):
        steps = steps.index_put(places, _compared(later[places], state, norm, eps))
    whole = _compared(total, group, norm, eps)
    return spread(whole, mask) + weight * over_turn(steps, turn, mask)


def _compared(reward: Tensor, group: Tensor, norm: Norm, eps: float) -> Tensor:
    groups = RewardGroups(reward, group)
    apart = groups.reward - groups.mean[groups.index]
    if norm == "mean_std":
        apart = apart / (groups.std("sample") + eps)[groups.index]
    return groups.advantage(apart)


class GiGPO(AdvantageEstimator):
    """Episodes compared within their group, turns with others that began in the same state.

    Args:
        weight: Weight of the comparison of turns, or ``coef["gigpo"]``.
        gamma: Per turn.
        norm: ``"mean"`` or ``"mean_std"``.
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
        adv = gigpo_advantages(
            batch.reward, batch.token_reward(), batch.by_turn("anchor"), batch.group, batch.turn,
            batch.mask, weight=coef.get("gigpo", self.weight), gamma=self.gamma, norm=self.norm,
        )  # fmt: skip
        return Estimate(adv)
