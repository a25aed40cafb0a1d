"""Tasks and difficulty by one of ``searchgym.curricula``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...curricula import Curriculum, make_curriculum
from ...seeding import derive
from ...types import Task
from ..slots.records import Scored
from .uniform import Uniform


class ByCurriculum(Uniform):
    """``curriculum``: an object, an import path or ``{"use": path, …}``; it observes the mean
    reward of each trained member."""

    def __init__(self, curriculum: Any) -> None:
        super().__init__()
        self.curriculum: Curriculum = make_curriculum(curriculum)

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        task = tasks[self.curriculum.choose(tasks, derive(key, "task"))]
        return task, dict(self.curriculum.params())

    def observe(self, scored: Scored) -> None:
        for reward in scored.rewards.outcome[scored.training]:
            if not np.isnan(reward):
                self.curriculum.observe(scored.group.plan.task.id, float(reward))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "curriculum": self.curriculum.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.curriculum.load_state_dict(state["curriculum"])
