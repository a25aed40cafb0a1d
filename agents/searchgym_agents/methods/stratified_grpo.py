"""Stratified GRPO (arXiv 2510.06214): compared with those of the group that searched as often."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from searchgym.rl import Batch, Coef, Estimate, Reduction, Relative, grpo_advantages
from searchgym.rl.ops import Std, checked_std


class Stratified(Relative):
    """GRPO within the stratum and within the group, mixed.

    Trajectories of different structure earn different rewards for reasons that no single action is
    to blame for; comparing them all biases credit by the difference of the strata's means. A
    stratum of one gets 0 from the first (ours). The paper's strata are by number, placement and
    outcomes of the searches.

    Args:
        alpha: Weight of the first, or ``coef["stratified"]``; the paper's is not known to us.
        stratum: The signal whose equal values make a stratum, or several; one of turns counts with
            all its turns (``["searches", "turn_evidence"]``: how many, and which of them found
            something).
        std: The paper's statements (variance 1 in each stratum) hold for "population".
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
        keys = [batch.signal(name).double().reshape(len(batch), -1) for name in self.strata]
        # NaN (a turn that a member has not) is a value like any other, and differs from all of them
        keys += [key.isnan().double() for key in keys]
        cells = torch.cat([batch.group.double()[:, None], *map(torch.nan_to_num, keys)], 1)
        _, within = torch.unique(cells, dim=0, return_inverse=True)
        inside, whole = (
            grpo_advantages(batch.reward, group, std=self.std, eps=self.eps)
            for group in (within, batch.group)
        )
        alpha = coef.get("stratified", self.alpha)
        return Estimate(alpha * inside + (1 - alpha) * whole)
