"""Difficulty by what the task is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CardError
from ..types import Task
from .axes import MEASURES
from .base import Driver


class PerTask(Driver):
    """Curriculum in which each task is played at the difficulty of its level, e.g. easy ones
    without tools (as in UR², arXiv 2508.06165, which gives tools to hard questions only).

    Args:
        levels: Level → parameters. Levels are compared as texts, so that TOML's keys will do.
        by: Axis of the level: "hops", "branches", "blur" (see ``AXES``), "family", "split", or a
            key of ``task.meta``.
        default: Parameters of tasks whose level is not listed.
        tasks: Which curriculum chooses tasks.

    Raises:
        CardError: a level names an axis that chooses tasks; by :meth:`params`, the task does not
            say its level.
    """

    def __init__(
        self,
        levels: Mapping[Any, Mapping[str, float]],
        *,
        by: str = "hops",
        default: Mapping[str, float] | None = None,
        tasks: Any = None,
    ) -> None:
        super().__init__(tasks)
        self.levels = {str(level): dict(params) for level, params in levels.items()}
        self.by, self.default = by, dict(default or {})
        for params in (*self.levels.values(), self.default):
            if chosen := sorted(set(params) & set(MEASURES)):
                raise CardError(
                    f"the axis {chosen[0]!r} chooses tasks, so it cannot depend on the task; give "
                    "it to the curriculum in 'tasks'"
                )

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return {} if task is None else self.levels.get(self.level(task), self.default)

    def level(self, task: Task) -> str:
        """The level of a task, as a text."""
        if self.by in ("family", "split"):
            return str(getattr(task, self.by))
        value = MEASURES[self.by](task) if self.by in MEASURES else task.meta.get(self.by)
        if value is None:
            raise CardError(f"the task {task.id!r} does not say its {self.by!r}; set another 'by'")
        return str(value)
