"""prime-rl's pools: hard, normal and easy tasks, each with its weight."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from .weighted import ByWeight

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
        found = self.returns.get(task_id)
        if not found:
            return None
        mean = sum(found) / len(found)
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
        return {"returns": {name: list(found) for name, found in self.returns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.returns = {
            str(name): deque(map(float, found), maxlen=self.group)
            for name, found in state["returns"].items()
        }
        self.forget()
