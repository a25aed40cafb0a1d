"""Coefficients by step: objects of the slot ``schedule``.

A recipe reads ``"lr"`` (a factor on the learning rate), each loss's name (``"policy"``, ``"kl"``,
``"entropy"`` …; replaces its weight), ``"w_<signal>"``, and what its parts declare in ``reads``. It
refuses other names, which would change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..curricula.schedules import make_schedule
from .ops.ratios import adapted_kl_coefficient
from .slots.protocols import CoefficientSchedule


class Constant(CoefficientSchedule):
    """The same numbers at every step."""

    registered = "constant"

    def __init__(self, **values: float) -> None:
        self.values = {name: float(value) for name, value in values.items()}
        self.names = frozenset(values)

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return self.values


class ScheduledCoefficients(CoefficientSchedule):
    """Coefficients of which each follows a schedule of its own: a number or ``{kind = "linear",
    …}``."""

    registered = "scheduled"

    def __init__(self, **specs: Any) -> None:
        self.schedules = {name: make_schedule(spec) for name, spec in specs.items()}
        self.names = frozenset(specs)

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return {name: schedule(step) for name, schedule in self.schedules.items()}


class AdaptiveKL(CoefficientSchedule):
    """``name`` grows while the KL to the reference is above ``target``, and shrinks below it.

    Args:
        name: The coefficient: a KL loss's ``"kl"``, or ``"beta"`` of KL in the reward.
        start: Its first value.
        measured: The metric to hold at ``target``.
    """

    registered = "adaptive_kl"
    remembers = ("value",)

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
