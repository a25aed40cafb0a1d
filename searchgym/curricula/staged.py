"""SearchGym-RL: stages of growing difficulty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import CardError
from ..types import Task
from .stages import InStages, Stages


class Staged(InStages):
    """Stages of growing difficulty (SearchGym-RL, arXiv 2601.14615) by ``max_hops[stage]``.

    ``params``: any axes or other parameters, for each stage. When a stage ends is the business of
    :class:`searchgym.curricula.stages.Stages`. A stage in which no task is short enough plays all;
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
            found = [i for i, t in enumerate(tasks) if t.hops <= limit]
            known = self._eligible = (self.stage, tasks, found or list(range(len(tasks))))
        eligible = known[2]
        chosen = eligible[key % len(eligible)]
        self.drawn(tasks[chosen])
        return chosen

    def params(self) -> Mapping[str, float]:
        return self._stage_params[self.stage]
