"""MT-GRPO (arXiv 2505.11821): GRPO of the outcome, and of turn rewards except for the last turn."""

from __future__ import annotations

from typing import ClassVar

import torch

from ..ops.groups import Std, checked_std
from ..ops.mask import masked, spread
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot
from .base import Coef
from .grpo import grpo_advantages


class MTGRPO(Slot):
    """GRPO of the outcome, and for all turns but the last, which see a result afterwards, that of
    the sum of the turn rewards besides (MT-GRPO, arXiv 2505.11821).

    Args:
        weight: Weight of the second, or ``coef["mt_grpo"]``.
    """

    registered = "mt_grpo"
    reads = frozenset({"mt_grpo"})
    relative: ClassVar[bool] = False  # equal totals may be made of different outcomes
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})
    requires = frozenset({"turn_reward"})

    def __init__(self, weight: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.weight, self.eps = float(weight), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        turns = masked(batch.need("turn_reward"), batch.mask).sum(1)
        turns = torch.where(batch.reward.isnan(), batch.reward, turns)
        outcome = batch.need("outcome")
        of_outcome, of_turns = (
            grpo_advantages(reward, batch.group, std=self.std, eps=self.eps)
            for reward in (outcome, turns)
        )
        last = batch.turn == torch.where(batch.mask, batch.turn, -1).amax(1, keepdim=True)
        adv = spread(of_outcome, batch.mask)
        weight = coef.get("mt_grpo", self.weight)
        return Estimate(adv + weight * spread(of_turns, batch.mask & ~last))
