"""A method that is wrong on purpose: what a laboratory cannot tell from GRPO, it cannot judge."""

from __future__ import annotations

from typing import ClassVar

import torch

from ..rl.advantages.base import Coef, DrawingOver
from ..rl.ops.mask import spread
from ..rl.slots.batch import Batch, Estimate
from ..seeding import derive


class ShuffledTurns(DrawingOver):
    """``base``'s advantages, each turn's given to another random turn of the same group.

    Sums, scale and spread are the base's; whom they are given to is not.

    Args:
        seed: Seed of the shuffling, with the number of the step.
    """

    relative: ClassVar[bool] = True

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        adv = spread(made.adv, batch.mask)
        draw = torch.Generator().manual_seed(derive(self.seed, "shuffle", self.steps) % (1 << 62))
        self.steps += 1
        width = int(batch.turn.max()) + 1
        turns = (torch.arange(len(batch))[:, None] * width + batch.turn)[batch.mask]
        kinds, at = torch.unique(turns, return_inverse=True)
        value = torch.zeros(len(kinds), dtype=adv.dtype)
        value[at] = adv[batch.mask]  # tokens of a turn have one advantage, or the last one's
        group = batch.group[kinds // width]
        # within each group: its turns in random order take over the values of its turns in order
        order = torch.argsort(group, stable=True)
        noise = torch.rand(len(kinds), generator=draw)
        mixed = torch.argsort(noise)
        mixed = mixed[torch.argsort(group[mixed], stable=True)]
        shuffled = torch.empty_like(value)
        shuffled[order] = value[mixed]
        new = torch.zeros_like(adv)
        new[batch.mask] = shuffled[at]
        return made._replace(adv=new)
