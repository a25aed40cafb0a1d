"""RED (arXiv 2508.16677): imitation weighs more where the policy's own entropy has fallen more."""

from __future__ import annotations

import math
from collections.abc import Mapping

from searchgym.rl import CoefficientSchedule


class ByEntropies(CoefficientSchedule):
    """``name`` is ``weight`` · (H_e / H_e⁰) / (H_o / H_o⁰), within ``low`` and ``high``, with the
    entropies at an expert's tokens (H_e) and at the policy's own (H_o), each by its first value.

    Reinforcement learning narrows what the policy does and lowers H_o, which raises the weight; an
    expert's tokens that have been learnt lower H_e, and the weight.

    Args:
        weight: Value of the first step.
        name: Name of the loss.
        expert, own: Metrics that hold the two entropies; the loss ``sft`` logs the first with
            ``entropy = true``.
    """

    registered = "schedule:by_entropies"
    remembers = ("first", "ratio")

    def __init__(
        self,
        weight: float = 0.1,
        name: str = "sft",
        low: float = 0.0,
        high: float = 1.0,
        expert: str = "sft/entropy",
        own: str = "entropy",
    ) -> None:
        if not 0 <= low <= high < math.inf:
            raise ValueError(f"0 ≤ low ≤ high, got {low}, {high}")
        self.weight, self.name, self.names = float(weight), name, frozenset({name})
        self.low, self.high = float(low), float(high)
        self.metrics = (expert, own)
        self.watches = frozenset(self.metrics)
        self.first: list[float] | None = None
        self.ratio = 1.0

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        entropies = [metrics.get(name, math.nan) for name in self.metrics]
        if all(math.isfinite(v) and v > 0 for v in entropies):  # none where nothing was trained on
            if self.first is None:
                self.first = entropies
            expert, own = (v / first for v, first in zip(entropies, self.first, strict=True))
            self.ratio = expert / own
        return {self.name: min(max(self.weight * self.ratio, self.low), self.high)}
