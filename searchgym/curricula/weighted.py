"""Tasks drawn by a weight that follows their returns: self-paced, success band, pools."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CardError
from ..seeding import derive, unit
from ..types import Task


class ByWeight:
    """A task is drawn with probability weight / sum of weights; ``weight`` is the subclass's."""

    adapts = True

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
        place = int(np.searchsorted(self._sums, mark, side="right"))
        return min(place, len(tasks) - 1)  # rounding may put the mark at the very end

    def changed(self, task_id: str) -> None:
        """A task's weight is another now."""
        if (place := self._places.get(task_id)) is not None:
            self._weights[place], self._sums = self.weight(task_id), None

    def forget(self) -> None:
        """All weights may be others now."""
        self._tasks = None

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        """Return no parameters: such a curriculum only chooses tasks."""
        return {}


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


POOLS: Mapping[str, tuple[float, float]] = {
    "hard": (0.25, 0.2),
    "normal": (0.75, 1.0),
    "easy": (1.0, 0.2),
}


class DifficultyPool(ByWeight):
    """A task belongs to the first pool whose upper bound its mean return does not exceed, the last
    one else, and is drawn by that pool's weight; one not played yet weighs ``unseen`` (prime-rl's
    ``DifficultyPoolSampler``).

    ``pools``: name → (inclusive upper bound, weight), bounds growing. The mean is over a task's
    latest ``group`` returns; the trainer tells of a whole group as one, in environments it is 1
    episode.
    """

    def __init__(
        self,
        pools: Mapping[str, Sequence[float]] = POOLS,
        *,
        unseen: float = 1.0,
        group: int = 1,
    ) -> None:
        super().__init__()
        bounds = [float(bound) for bound, _ in pools.values()]
        weights = [float(weight) for _, weight in pools.values()]
        if not bounds or bounds != sorted(set(bounds)) or min(*weights, unseen) <= 0 or group < 1:
            raise CardError(
                "pools need growing bounds and positive weights, group at least 1; got "
                f"pools={dict(pools)}, unseen={unseen}, group={group}"
            )
        self.names, self.bounds, self.weights = tuple(pools), bounds, weights
        self.unseen, self.group = unseen, group
        self.returns: dict[str, deque[float]] = {}

    def pool(self, task_id: str) -> str | None:
        """The pool a task is in; ``None`` before it was played."""
        place = self._pool(task_id)
        return None if place is None else self.names[place]

    def _pool(self, task_id: str) -> int | None:
        returns = self.returns.get(task_id)
        if not returns:
            return None
        mean = sum(returns) / len(returns)
        fits = (i for i, bound in enumerate(self.bounds) if mean <= bound)
        return next(fits, len(self.bounds) - 1)

    def weight(self, task_id: str) -> float:
        place = self._pool(task_id)
        return self.unseen if place is None else self.weights[place]

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.returns.setdefault(task_id, deque(maxlen=self.group)).append(reward)
        self.changed(task_id)

    def metrics(self) -> dict[str, float]:
        """Tasks in each pool."""
        counts = dict.fromkeys(self.names, 0.0)
        for task_id in self.returns:
            counts[self.names[self._pool(task_id) or 0]] += 1
        return counts

    def state_dict(self) -> dict[str, Any]:
        return {"returns": {name: list(returns) for name, returns in self.returns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.returns = {
            str(name): deque(map(float, returns), maxlen=self.group)
            for name, returns in state["returns"].items()
        }
        self.forget()
