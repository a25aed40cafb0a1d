"""MaskSearch: stages by an exact count, with some of what came before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import CardError
from ..seeding import derive, unit
from ..types import Task
from .stages import InStages, Stages


class MaskSearch(InStages):
    """Stage L plays tasks of level L, and with probability 1 - ``share`` a level below it, all of
    those alike (MaskSearch, arXiv 2505.20285: tasks with 1 to 4 masks, in this order; the mixture
    and the switch are ours).

    ``levels``: in order; ``by``: "hops", or a key of ``task.meta`` such as "masks". When a stage
    ends is the business of :class:`searchgym.curricula.stages.Stages`.

    Raises:
        CardError: by :meth:`choose`, for a level that no task has.
    """

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

    def params(self) -> Mapping[str, float]:
        return {}
