"""Stratified GRPO (arXiv 2510.06214): compared with those of the group that searched as often."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Reduction, Relative, grpo_advantages
from searchgym.rl.ops import Std, checked_std, require_rows


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
        stratum: (B,) or (B, S) any numbers, equal within a stratum; the paper's strata are by
            number, placement and outcomes of the searches.
        alpha: 1: within strata alone; 0: GRPO. The paper's value is not known to us.
        std: The paper's statements (variance 1 in each stratum) hold for "population".
    """
    keys = stratum.double().reshape(len(stratum), -1)
    require_rows(reward=reward, group=group, stratum=keys[:, 0])
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be in [0, 1], got {alpha}")
    # NaN (a turn that a member has not) is a value like any other, and differs from all of them
    keys = torch.stack([torch.nan_to_num(keys), keys.isnan().double()], -1).flatten(1)
    cells = torch.cat([group.double()[:, None], keys], 1)
    _, within = torch.unique(cells, dim=0, return_inverse=True)
    inside = grpo_advantages(reward, within, std=std, eps=eps)
    return alpha * inside + (1 - alpha) * grpo_advantages(reward, group, std=std, eps=eps)


class Stratified(Relative):
    """GRPO within the stratum and within the group, mixed.

    Args:
        alpha: Weight of the first, or ``coef["stratified"]``.
        stratum: The signal whose equal values make a stratum, or several; one of turns counts with
            all its turns (``["searches", "turn_evidence"]``: how many, and which of them found
            something).
    """

    registered = "advantage:stratified"
    reads = frozenset({"stratified"})
    invariant = frozenset({"shift", "scale"})
    reductions = (Reduction({"alpha": 0.0}, {"use": "grpo", "std": "population"}),)

    def __init__(
        self,
        alpha: float = 0.5,
        stratum: str | Sequence[str] = "searches",
        std: Std = "population",
        eps: float = 1e-6,
    ) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is in [0, 1], got {alpha}")
        self.alpha, self.eps = float(alpha), float(eps)
        self.strata = (stratum,) if isinstance(stratum, str) else tuple(stratum)
        if not self.strata:
            raise ValueError("stratum names a signal or several, got none")
        self.std: Std = checked_std(std)
        self.requires = frozenset(self.strata)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(stratified_advantages(
            batch.reward, batch.group,
            torch.cat([batch.signal(n).double().reshape(len(batch), -1) for n in self.strata], 1),
            alpha=coef.get("stratified", self.alpha), std=self.std, eps=self.eps,
        ))  # fmt: skip
