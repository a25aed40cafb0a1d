"""Prioritized sampling (Kimi k1.5, arXiv 2501.12599): failed tasks come back more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...seeding import stream
from ...types import Task
from ..slots.records import Scored
from .uniform import UniformTasks


class Prioritized(UniformTasks):
    """A task's odds are ``1 - success``, its mean ``metric`` over time, and at least ``floor``.

    Args:
        metric: A signal between 0 and 1; what is added to rewards for length makes no success.
        momentum: Momentum of each task's mean. Tasks not yet played count as failed.
    """

    registered = "prioritized"

    def __init__(
        self, floor: float = 0.05, momentum: float = 0.5, *, metric: str = "return"
    ) -> None:
        super().__init__()
        if not 0 < floor <= 1 or not 0 <= momentum < 1:
            raise ValueError(f"0 < floor ≤ 1 and 0 ≤ momentum < 1, got {floor}, {momentum}")
        self.floor, self.momentum = float(floor), float(momentum)
        self.metric, self.requires = metric, frozenset({metric})
        self.success: dict[str, float] = {}

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        odds = np.array([max(1 - self.success.get(t.id, 0.0), self.floor) for t in tasks])
        return tasks[int(stream(key, "task").choice(len(tasks), p=odds / odds.sum()))], {}

    def observe(self, scored: Scored) -> None:
        results = scored.signals[self.metric][scored.training]
        results = results[np.isfinite(results)]
        if not len(results):
            return
        mean, name = float(np.clip(results.mean(), 0, 1)), scored.group.plan.task.id
        before = self.success.get(name, mean)
        self.success[name] = self.momentum * before + (1 - self.momentum) * mean

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "success": dict(self.success)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.success = {str(k): float(v) for k, v in state["success"].items()}
