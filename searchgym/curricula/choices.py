"""Curricula that choose tasks: in stages that end by success or budget, and by weights that follow
their returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import CardError
from ..objects import Remembering
from ..seeding import derive, unit
from ..types import Task


class Stages(Remembering):
    """``count`` stages. The next one begins when the running mean return (EMA with weight 0.1,
    ours) reaches ``threshold`` after at least ``min_episodes`` in the stage, or after
    ``max_episodes`` in any case. The last one never ends."""

    remembers = ("stage", "episodes", "ema")

    def __init__(self, count: int, threshold: float, min_episodes: int, max_episodes: int) -> None:
        if count < 1 or not 1 <= min_episodes <= max_episodes:
            raise CardError(
                "stages need 1 ≤ min_episodes ≤ max_episodes and at least one stage; got "
                f"{count} stages, min_episodes={min_episodes}, max_episodes={max_episodes}"
            )
        self.count, self.threshold = count, threshold
        self.min_episodes, self.max_episodes = min_episodes, max_episodes
        self.stage, self.episodes, self.ema = 0, 0, 0.0

    def observe(self, reward: float) -> None:
        """An episode of the present stage ended."""
        self.ema = reward if self.episodes == 0 else 0.9 * self.ema + 0.1 * reward
        self.episodes += 1
        learned = self.episodes >= self.min_episodes and self.ema >= self.threshold
        if self.stage + 1 < self.count and (learned or self.episodes >= self.max_episodes):
            self.stage, self.episodes, self.ema = self.stage + 1, 0, 0.0

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        stage = int(state["stage"])
        if not 0 <= stage < self.count:
            raise CardError(f"the state is of stage {stage}, this curriculum has {self.count}")
        super().load_state_dict(state)


class InStages:
    """Base of curricula whose only state is the current stage of ``stages``.

    Episodes of tasks that were last drawn in an earlier stage are not counted: a trainer draws a
    whole step of them before the first ends, and would else leave a stage it has not played.
    """

    adapts = True

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self._drawn: dict[str, int] = {}
        """Task → the stage in which it was last drawn."""

    def drawn(self, task: Task) -> None:
        """``choose`` has chosen this task."""
        self._drawn[task.id] = self.stages.stage

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        stage = self.stages.stage
        if self._drawn.get(task_id, stage) == stage:
            self.stages.observe(reward)

    def state_dict(self) -> dict[str, Any]:
        return {**self.stages.state_dict(), "drawn": dict(self._drawn)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stages.load_state_dict(state)
        self._drawn = {str(task): int(stage) for task, stage in state["drawn"].items()}


class Staged(InStages):
    """Stages of growing difficulty (SearchGym-RL, arXiv 2601.14615) by ``max_hops[stage]``.

    ``params``: any axes or other parameters, for each stage. When a stage ends is the business of
    :class:`Stages`. A stage in which no task is short enough plays all;
    the axis ``hops`` in ``params`` refuses instead.
    """

    def __init__(
        self,
        max_hops: Sequence[int] = (1, 2, 6),
        *,
        threshold: float = 0.7,
        min_episodes: int = 100,
        max_episodes: int = 20_000,
        params: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        if not max_hops or list(max_hops) != sorted(max_hops):
            raise CardError(f"max_hops must grow and not be empty, got {list(max_hops)}")
        if params is not None and len(params) != len(max_hops):
            raise CardError(f"got {len(params)} params for {len(max_hops)} stages; give one each")
        self.max_hops = tuple(max_hops)
        super().__init__(Stages(len(self.max_hops), threshold, min_episodes, max_episodes))
        self._stage_params = tuple(dict(p) for p in params or [{}] * len(max_hops))
        self._eligible: tuple[int, Sequence[Task], list[int]] | None = None

    @property
    def stage(self) -> int:
        """The present one, from 0."""
        return self.stages.stage

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        known = self._eligible
        if known is None or known[0] != self.stage or known[1] is not tasks:
            limit = self.max_hops[self.stage]
            fitting = [i for i, t in enumerate(tasks) if t.hops <= limit]
            known = self._eligible = (self.stage, tasks, fitting or list(range(len(tasks))))
        eligible = known[2]
        chosen = eligible[key % len(eligible)]
        self.drawn(tasks[chosen])
        return chosen

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        return self._stage_params[self.stage]


class MaskSearch(InStages):
    """Stage L plays tasks of level L, and with probability 1 - ``share`` a level below it, all of
    those alike (MaskSearch, arXiv 2505.20285: tasks with 1 to 4 masks, in this order; the mixture
    and the switch are ours).

    ``levels``: in order; ``by``: "hops", or a key of ``task.meta``, such as "masks", which
    the family ``masked`` counts. When a stage ends is the business of :class:`Stages`.

    Raises:
        CardError: by :meth:`choose`, for a level that no task has.
    """

    systems: ClassVar[tuple[str, ...]] = ("MaskSearch",)

    def __init__(
        self,
        levels: Sequence[int] = (1, 2, 3, 4),
        *,
        by: str = "hops",
        share: float = 0.8,
        threshold: float = 0.8,
        min_episodes: int = 100,
        max_episodes: int = 20_000,
    ) -> None:
        if not levels or list(levels) != sorted(set(levels)):
            raise CardError(f"levels must grow and not be empty, got {list(levels)}")
        if not 0 < share <= 1:
            raise CardError(f"share must lie in (0, 1], got {share}")
        self.levels, self.by, self.share = tuple(levels), by, share
        super().__init__(Stages(len(self.levels), threshold, min_episodes, max_episodes))
        self._known: tuple[Sequence[Task], dict[int, list[int]]] | None = None

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        if self._known is None or self._known[0] is not tasks:
            places: dict[int, list[int]] = {}
            for i, task in enumerate(tasks):
                places.setdefault(self._level(task), []).append(i)
            self._known = (tasks, places)
        places, stage = self._known[1], self.stages.stage
        level = self.levels[stage]
        if stage and unit(derive(key, "mix")) >= self.share:
            level = self.levels[derive(key, "below") % stage]
        if level not in places:
            raise CardError(f"no task has {level} {self.by}; there are {sorted(places)}")
        chosen = places[level][key % len(places[level])]
        self.drawn(tasks[chosen])
        return chosen

    def _level(self, task: Task) -> int:
        if self.by == "hops":
            return task.hops
        if self.by not in task.meta:
            raise CardError(
                f"the task {task.id!r} has no meta[{self.by!r}]; use by='hops' or tasks that do"
            )
        return int(task.meta[self.by])

    def params(self, task: Task | None = None) -> Mapping[str, float]:
        return {}


class ByWeight(Remembering):
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.forget()

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

    remembers = ("success",)

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
