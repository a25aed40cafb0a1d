"""Stratified GRPO (arXiv 2510.06214): compared with those of the group that searched as often."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.groups import Std
from ..kernels.shapes import require_rows
from .grpo import grpo_advantages


def stratified_advantages(
    reward: Tensor,
    group: Tensor,
    stratum: Tensor,
    *,
    alpha: float = 0.5,
    std: Std = "population",
    eps: float = 1e-6,
) -> Tensor:
    """(B,) ``α A_S + (1 - α) A_G``: GRPO's advantage within the stratum of the group, and within
    the group.

    Trajectories of different structure earn different rewards for reasons that no single action is
    to blame for; comparing them all biases credit by the difference of the strata's means. A
    stratum of one has A_S = 0 (ours).

    Args:
        reward, group: (B,).
        stratum: (B,) any numbers; the paper's is the number of searches.
        alpha: 1: within strata alone; 0: GRPO. The paper's value is not known to us.
        std: The paper's statements (variance 1 in each stratum) hold for "population".
    """
    require_rows(reward=reward, group=group, stratum=stratum)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be in [0, 1], got {alpha}")
    pairs = torch.stack([group.double(), stratum.double()], 1)
    _, within = torch.unique(pairs, dim=0, return_inverse=True)
    inside = grpo_advantages(reward, within, std=std, eps=eps)
    return alpha * inside + (1 - alpha) * grpo_advantages(reward, group, std=std, eps=eps)
