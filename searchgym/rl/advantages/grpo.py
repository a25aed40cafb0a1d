"""GRPO (arXiv 2402.03300) and Dr.GRPO (arXiv 2503.20783): rewards compared within the group."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.groups import RewardGroups, Std
from ..kernels.mask import masked
from ..kernels.returns import sum_of_later
from ..kernels.shapes import require_batch


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


def dr_grpo_advantages(reward: Tensor, group: Tensor) -> Tensor:
    """(B,) R - mean of the group: (G - 1) / G of the unbiased gradient."""
    groups = RewardGroups(reward, group)
    return groups.advantage(groups.reward - groups.mean[groups.index])


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
        ends: (B, T) bool, last tokens of steps (``kernels.turns.turn_ends``).
        group: (B,). mask: (B, T).
    """
    require_batch(mask, group=group)
    steps = (masked(ends.to(reward.dtype), mask) > 0).nonzero(as_tuple=True)
    scores = grpo_advantages(reward[steps], group[steps[0]], std=std, eps=eps)
    placed = torch.zeros_like(reward.detach()).index_put(steps, scores)
    return sum_of_later(placed, mask, torch.where(ends > 0, gamma, 1.0))
