"""A coefficient that holds the KL to the reference near a target (arXiv 1909.08593)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops.ratios import adapted_kl_coefficient
from ..slots.protocols import Slot


class AdaptiveKL(Slot):
    """``name`` grows while the KL to the reference is above ``target``, and shrinks below it.

    Args:
        name: The coefficient: a KL loss's ``"kl"``, or ``"beta"`` of KL in the reward.
        start: Its first value.
        measured: The metric to hold at ``target``.
    """

    registered = "adaptive_kl"

    def __init__(
        self,
        name: str = "kl",
        start: float = 0.001,
        target: float = 0.1,
        horizon: int = 10_000,
        measured: str = "kl",
    ) -> None:
        adapted_kl_coefficient(start, target, 1, target=target, horizon=horizon)
        self.name, self.value, self.measured = name, float(start), measured
        self.requires = frozenset({"ref_logp"} if measured == "kl" else ())
        self.watches = frozenset({measured, "trajectories"})
        self.names = frozenset({name})
        self.target, self.horizon = target, horizon

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        if self.measured in metrics:
            self.value = adapted_kl_coefficient(
                self.value,
                metrics[self.measured],
                int(metrics["trajectories"]),
                target=self.target,
                horizon=self.horizon,
            )
        return {self.name: self.value}

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.value = float(state["value"])
