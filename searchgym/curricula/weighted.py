"""Base of curricula that draw tasks by a weight that follows each task's returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..seeding import derive, unit
from ..types import Task


class ByWeight:
    """A task is drawn with probability weight / sum of weights; ``weight`` is the subclass's."""

    def __init__(self) -> None:
        self._tasks: Sequence[Task] | None = None
        self._weights: NDArray[np.float64] = np.zeros(0)
        self._places: dict[str, int] = {}
        self._sums: NDArray[np.float64] | None = None

    def weight(self, task_id: str) -> float:
        """Positive, in any unit."""
        raise NotImplementedError

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        if tasks is not self._tasks:
            self._tasks, self._sums = tasks, None
            self._weights = np.array([self.weight(task.id) for task in tasks])
            self._places = {task.id: i for i, task in enumerate(tasks)}
        if self._sums is None:
            self._sums = np.cumsum(self._weights)
        mark = unit(derive(key, "weighted")) * self._sums[-1]
        found = int(np.searchsorted(self._sums, mark, side="right"))
        return min(found, len(tasks) - 1)  # rounding may put the mark at the very end

    def changed(self, task_id: str) -> None:
        """A task's weight is another now."""
        if (place := self._places.get(task_id)) is not None:
            self._weights[place], self._sums = self.weight(task_id), None

    def forget(self) -> None:
        """All weights may be others now."""
        self._tasks = None

    def params(self) -> Mapping[str, float]:
        """None: such a curriculum only chooses tasks."""
        return {}
