"""ReMax: compared with what the greedy episode earned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..advantages.remax import remax_advantages
from ..kernels.mask import at_last_token
from ..slots.batch import Batch
from ..slots.protocols import Slot


class ReMax(Slot):
    """Needs ``{use = "chains", greedy_twin = true}``."""

    relative: ClassVar[bool] = False
    requires = frozenset({"baseline"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> tuple[Tensor, None]:
        reward = at_last_token(torch.nan_to_num(batch.reward), batch.mask)
        greedy = torch.where(batch.reward.isnan(), batch.reward, batch.need("baseline"))
        return remax_advantages(reward, greedy, batch.mask), None
