"""Advantages without any comparison: for supervised losses, which read no advantages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


class Ones(Slot):
    """1 for every trajectory; 0 for those that cannot be scored."""

    registered = "ones"
    relative: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        ones = torch.ones_like(batch.reward)
        return Estimate(torch.where(batch.reward.isnan(), torch.zeros_like(ones), ones))
