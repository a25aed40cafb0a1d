"""REINFORCE (Williams 1992): the reward minus a baseline that does not depend on the sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..ops.tokens import require_rows
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


def reinforce_advantages(reward: Tensor, baseline: float = 0.0) -> Tensor:
    """(B,) R - ``baseline``; 0 where R is NaN. Any constant baseline leaves it unbiased."""
    require_rows(reward=reward)
    adv = reward.detach() - baseline
    return torch.where(torch.isnan(adv), torch.zeros_like(adv), adv)


@dataclass(slots=True)
class RunningMean:
    """A baseline from *earlier* batches: read ``value`` first, then ``update``.

    A mean that holds the sample itself would bias the gradient.

    Args:
        momentum: 0: the plain mean of everything so far; 0.9: mostly the last ten batches.
    """

    momentum: float = 0.0
    value: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}")

    def update(self, reward: Tensor) -> None:
        """Take in a batch's rewards, of any shape; NaN does not count."""
        known = reward.detach()[~torch.isnan(reward)]
        if not known.numel():
            return
        mean = float(known.mean())
        if not math.isfinite(mean):
            raise ValueError("a reward is infinite; use NaN for what cannot be scored")
        if self.momentum and self.count:
            self.value = self.momentum * self.value + (1 - self.momentum) * mean
        else:
            share = known.numel() / (self.count + known.numel())
            self.value += share * (mean - self.value)
        self.count += known.numel()

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "count": self.count}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value, self.count = float(state["value"]), int(state["count"])


class Reinforce(Slot):
    """The reward minus a baseline: ``"mean"`` of all *earlier* batches' rewards, or a number."""

    registered = "reinforce"
    relative: ClassVar[bool] = False

    def __init__(self, baseline: str | float = "mean", momentum: float = 0.0) -> None:
        if isinstance(baseline, str) and baseline != "mean":
            raise ValueError(f"baseline is 'mean' or a number, got {baseline!r}")
        self.fixed = None if isinstance(baseline, str) else float(baseline)
        self.mean = RunningMean(momentum)

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        if self.fixed is not None:
            return Estimate(reinforce_advantages(batch.reward, self.fixed))
        if not self.mean.count:  # nothing known yet: the batch's own mean, biased this once
            first = batch.reward[~batch.reward.isnan()]
            baseline = float(first.mean()) if len(first) else 0.0
        else:
            baseline = self.mean.value
        self.mean.update(batch.reward)
        return Estimate(reinforce_advantages(batch.reward, baseline))

    def state_dict(self) -> dict[str, Any]:
        return dict(self.mean.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.mean.load_state_dict(dict(state))
