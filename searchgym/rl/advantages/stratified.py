"""Stratified GRPO (arXiv 2510.06214): compared with those of the group that searched as often."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ..ops.groups import Std, checked_std
from ..ops.shapes import require_rows
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Relative
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


class Stratified(Relative):
    """GRPO within the stratum and within the group, mixed.

    Args:
        alpha: Weight of the first, or ``coef["stratified"]``.
        stratum: The signal whose equal values make a stratum.
    """

    registered = "stratified"
    reads = frozenset({"stratified"})
    invariant = frozenset({"shift", "scale"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"alpha": 0.0}, {"use": "grpo", "std": "population"}),
    )

    def __init__(
        self,
        alpha: float = 0.5,
        stratum: str = "searches",
        std: Std = "population",
        eps: float = 1e-6,
    ) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is in [0, 1], got {alpha}")
        self.alpha, self.stratum, self.eps = float(alpha), stratum, float(eps)
        self.std: Std = checked_std(std)
        self.requires = frozenset({stratum})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(stratified_advantages(
            batch.reward, batch.group, batch.signal(self.stratum),
            alpha=coef.get("stratified", self.alpha), std=self.std, eps=self.eps,
        ))  # fmt: skip
