"""Data policies: the choice of the next tasks and of the groups that are trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curricula import Curriculum, TaskPool, difficulty_of, make_curriculum, next_task
from ..errors import EngineError
from ..seeding import derive, stream
from ..types import Task
from .ops.groups import all_alike
from .slots.protocols import DataPolicy
from .slots.records import Scored, TaskPlan


class UniformTasks(DataPolicy):
    """The default; base of the others, which override what they do differently."""

    registered = "uniform"
    remembers = ("drawn",)

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


class ByCurriculum(UniformTasks):
    """``curriculum``: a name, an import path, ``{"use": either, …}`` or an object, as environments
    take it. It observes each group's mean reward over its trained members, and a step of its
    schedules is a training step."""

    registered = "curriculum"
    remembers = ("curriculum",)

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
        task, params = next_task(self.curriculum, self._pool, derive(key, "task"))
        return task, {**params, **difficulty_of(params)}

    def observe(self, scored: Scored) -> None:
        plan = scored.group.plan
        rewards = scored.rewards.total[scored.training]
        rewards = rewards[~np.isnan(rewards)]
        if len(rewards):
            self.curriculum.observe(plan.task.id, float(rewards.mean()), plan.params)


class Dynamic(UniformTasks):
    """Drops groups whose ``metric`` is the same for all members, and plays further tasks instead.

    Args:
        metric: A signal, compared between members; penalties for length do not make a group differ.
        max_rounds: Rounds of playing per step, of as many tasks each.
        strict: When they are used up: an ``EngineError``, or train on what there is.
    """

    registered = "dynamic"

    def __init__(self, metric: str = "return", max_rounds: int = 10, strict: bool = False) -> None:
        super().__init__()
        if max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, got {max_rounds}")
        self.metric, self.max_rounds, self.strict = metric, max_rounds, strict
        self.requires = frozenset({metric})

    def admit(self, scored: Scored) -> Scored | None:
        values = scored.signals[self.metric][scored.training]
        return None if all_alike(values) else scored

    def enough(self, kept: int, wanted: int, rounds: int) -> bool:
        if kept < wanted and rounds >= self.max_rounds and self.strict:
            raise EngineError(
                f"only {kept} of {wanted} groups had members of different {self.metric} after "
                f"{rounds} rounds: use easier or harder tasks, larger groups, or strict=False"
            )
        return kept >= wanted or rounds >= self.max_rounds


class Rejection(UniformTasks):
    """Keeps members with reward ≥ ``threshold``, equal texts once, at most ``cap`` per group (the
    best; of equal ones the first)."""

    registered = "rejection"

    def __init__(self, threshold: float = 0.5, cap: int | None = None) -> None:
        super().__init__()
        if cap is not None and cap < 1:
            raise ValueError(f"cap must be at least 1, got {cap}")
        self.threshold, self.cap = float(threshold), cap

    def admit(self, scored: Scored) -> Scored | None:
        outcome = scored.rewards.total
        good = [i for i in scored.training if outcome[i] >= self.threshold]
        good.sort(key=lambda i: -outcome[i])
        seen: set[tuple[str, ...]] = set()
        kept: list[int] = []
        for i in good:
            text = tuple(t.text for t in scored.group.members[i].episode.turns)
            if text not in seen:
                seen.add(text)
                kept.append(i)
        return scored.only(sorted(kept[: self.cap])) if kept else None
