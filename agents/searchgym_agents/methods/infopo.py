"""InfoPO (arXiv 2603.00656): credit for turns whose results changed what was written next."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over, Reduction
from searchgym.rl.ops import (
    RewardGroups,
    Std,
    checked_std,
    on_turns,
    spread,
    standardized,
    turn_ends,
)


def gate(std: Tensor, tau: float = 0.05) -> Tensor:
    """σ(-std / τ): a half where a group's rewards say nothing, near 0 where they do."""
    return torch.sigmoid(-std / tau)


class InfoPO(Over):
    """A = ``base`` + ``weight`` · g · s · z, with z the turns' ``influence`` compared among those
    of the group that are not 0, g = σ(-std of the group's rewards / ``tau``), and
    s = min(1, max(std of base's advantages, 1) / std of z), both within the group.

    Args:
        weight: Weight of the intrinsic part, or ``coef["infopo"]`` (released code: about .1,
            decaying to 0).
    """

    registered = "advantage:infopo"
    needs: ClassVar[frozenset[str]] = frozenset({"influence"})
    reads = frozenset({"infopo"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({"weight": 0.0}, {"use": "grpo"}),)

    def __init__(
        self, base: Any = "grpo", weight: float = 0.1, tau: float = 0.05, std: Std = "sample",
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__(base)
        if not tau > 0:
            raise ValueError(f"tau must be positive, got {tau}")
        self.weight, self.tau, self.eps = float(weight), float(tau), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        outcome = spread(made.adv, mask)
        ends = turn_ends(batch.turn, mask)
        influence = torch.nan_to_num(batch.by_turn("influence")).to(outcome.dtype)
        rows, columns = places = (ends & (influence != 0)).nonzero(as_tuple=True)
        if not len(rows):
            return made._replace(adv=outcome)
        group = batch.group[rows]
        score = standardized(influence[places], group, std=self.std, eps=self.eps)
        rewards = RewardGroups(batch.reward, batch.group)
        doubt = gate(rewards.std(self.std), self.tau)[rewards.index][rows]
        scored = RewardGroups(score, group)
        own = scored.std(self.std).clamp_min(self.eps)[scored.index]
        scale = self._std(outcome, ends, batch.group).clamp_min(1)[rows] / own
        more = coef.get("infopo", self.weight) * doubt * scale.clamp_max(1) * score
        return made._replace(adv=outcome + on_turns(more, (rows, columns), batch.turn, mask))

    def _std(self, adv: Tensor, ends: Tensor, group: Tensor) -> Tensor:
        """(N,) standard deviation of the group's advantages, one number a trajectory."""
        mean = (adv * ends).sum(1) / ends.sum(1).clamp_min(1)
        groups = RewardGroups(mean, group)
        return groups.std(self.std)[groups.index]
