"""All tasks in random order, then all in another; every group is trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...seeding import derive, stream
from ...types import Task
from ..slots.protocols import Slot
from ..slots.records import Scored, TaskPlan


class UniformTasks(Slot):
    """The default; base of the others, which override what they do differently."""

    registered = "uniform"

    def __init__(self) -> None:
        self.drawn = 0
        """Tasks handed out in all."""
        self.env: Any = None
        """The environment of the present plan, for subclasses that choose by its world or corpus;
        None if unknown."""
        self._place = (-1, 0)
        self._order: tuple[tuple[int, int, int], NDArray[np.int64]] | None = None

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, env: Any = None
    ) -> list[TaskPlan]:
        self.env = env
        plans: list[TaskPlan] = []
        for _ in range(count):
            place = self._place[1] if self._place[0] == step else 0
            key = derive(seed, "plan", step, place)
            task, params = self.choose(tasks, key, seed)
            plans.append(TaskPlan(task, f"{step}.{place}", key, params))
            self._place = (step, place + 1)
            self.drawn += 1
        return plans

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        """The next task and its difficulty parameters."""
        epoch, at = divmod(self.drawn, len(tasks))
        name = (seed, epoch, len(tasks))
        if self._order is None or self._order[0] != name:
            self._order = (name, stream(seed, "order", epoch).permutation(len(tasks)))
        return tasks[int(self._order[1][at])], {}

    def admit(self, scored: Scored) -> Scored | None:
        return scored

    def observe(self, scored: Scored) -> None:
        pass

    def enough(self, kept: int, wanted: int, rounds: int) -> bool:
        return rounds >= 1

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drawn = int(state["drawn"])
