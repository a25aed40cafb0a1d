"""ReMax: compared with what the greedy episode earned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from ..advantages.remax import remax_advantages
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


class ReMax(Slot):
    """Needs ``{use = "chains", greedy_twin = true}``."""

    relative: ClassVar[bool] = False
    requires = frozenset({"baseline"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        greedy = torch.where(batch.reward.isnan(), batch.reward, batch.need("baseline"))
        return Estimate(remax_advantages(batch.token_reward(), greedy, batch.mask))
