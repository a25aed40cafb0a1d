"""Coefficients that are constant, or functions of the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...curricula.schedules import make_schedule
from ..slots.protocols import Slot


class Constant(Slot):
    """The same numbers at every step."""

    registered = "constant"

    def __init__(self, **values: float) -> None:
        self.values = {name: float(value) for name, value in values.items()}
        self.names = frozenset(values)

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return self.values


class ScheduledCoefficients(Slot):
    """Coefficients of which each follows a schedule of its own: a number or ``{kind = "linear",
    …}``."""

    registered = "scheduled"

    def __init__(self, **specs: Any) -> None:
        self.schedules = {name: make_schedule(spec) for name, spec in specs.items()}
        self.names = frozenset(specs)

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return {name: schedule(step) for name, schedule in self.schedules.items()}
