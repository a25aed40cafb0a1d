"""Tasks that are solved sometimes come more often than those always or never solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CardError
from .weighted import ByWeight

UNSEEN = 0.5
"""The success rate that a task is held to have before it was played."""


class SelfPaced(ByWeight):
    """A task's weight is p (1 - p), at least ``floor``; p, its success rate, begins at
    :data:`UNSEEN` and moves by ``rate`` of the difference to each return (ours; the variance of a
    0/1 reward, which is what a policy gradient learns from).

    Returns are clipped to [0, 1].
    """

    def __init__(self, *, floor: float = 0.02, rate: float = 0.1) -> None:
        super().__init__()
        if not floor > 0 or not 0 < rate <= 1:
            raise CardError(f"floor must be positive and 0 < rate ≤ 1, got {floor}, {rate}")
        self.floor, self.rate = floor, rate
        self.success: dict[str, float] = {}

    def weight(self, task_id: str) -> float:
        p = self.success.get(task_id, UNSEEN)
        return max(p * (1 - p), self.floor)

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        p = self.success.get(task_id, UNSEEN)
        self.success[task_id] = p + self.rate * (min(max(reward, 0.0), 1.0) - p)
        self.changed(task_id)

    def state_dict(self) -> dict[str, Any]:
        return {"success": dict(self.success)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.success = {str(name): float(p) for name, p in state["success"].items()}
        self.forget()


class SuccessBand(SelfPaced):
    """A task's weight is 1 while its success rate lies in [``low``, ``high``], else ``outside``
    (ours)."""

    def __init__(
        self,
        low: float = 0.3,
        high: float = 0.8,
        *,
        outside: float = 0.1,
        rate: float = 0.1,
    ) -> None:
        super().__init__(rate=rate)
        if not low < high or not outside > 0:
            raise CardError(f"low < high and outside > 0 are needed, got {low}, {high}, {outside}")
        self.low, self.high, self.outside = low, high, outside

    def weight(self, task_id: str) -> float:
        inside = self.low <= self.success.get(task_id, UNSEEN) <= self.high
        return 1.0 if inside else self.outside
