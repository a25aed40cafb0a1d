"""Tasks and difficulty by one of ``searchgym.curricula``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...curricula import Curriculum, TaskPool, make_curriculum, next_task
from ...seeding import derive
from ...types import Task
from ..slots.records import Scored, TaskPlan
from .uniform import UniformTasks


class ByCurriculum(UniformTasks):
    """``curriculum``: a name, an import path, ``{"use": either, …}`` or an object, as environments
    take it. It observes each group's mean reward over its trained members, and a step of its
    schedules is a training step."""

    registered = "curriculum"

    def __init__(self, curriculum: Any) -> None:
        super().__init__()
        self.curriculum: Curriculum = make_curriculum(curriculum)
        self._pool: TaskPool | None = None

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, env: Any = None
    ) -> list[TaskPlan]:
        set_step = getattr(self.curriculum, "set_step", None)
        if set_step is not None:
            set_step(step)
        return super().plan(tasks, count, step, seed, env)

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        if self._pool is None or self._pool.tasks is not tasks:
            self._pool = TaskPool(tasks)
        return next_task(self.curriculum, self._pool, derive(key, "task"))

    def observe(self, scored: Scored) -> None:
        plan = scored.group.plan
        rewards = scored.rewards.total[scored.training]
        rewards = rewards[~np.isnan(rewards)]
        if len(rewards):
            self.curriculum.observe(plan.task.id, float(rewards.mean()), plan.params)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "curriculum": self.curriculum.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.curriculum.load_state_dict(state["curriculum"])
