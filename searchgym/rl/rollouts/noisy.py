"""Groups whose members are played under different noise."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.episode import Episode
from ...seeding import derive
from ..slots.records import TaskPlan, Workers
from .chains import Chains


class Noisy(Chains):
    """Chains whose members' engine is noisy at ``levels``, which repeat along the group: member i
    has ``levels[i mod n]`` as its difficulty parameter ``noise`` (NoisyGRPO, arXiv 2510.21122,
    which disturbs images; a search agent's input is what it finds). The engines ``degraded`` and
    ``simulated…`` read it.

    Args:
        size: Episodes of a group.
        levels: Shares of results that are not for the query, in [0, 1].
    """

    registered = "noisy"

    def __init__(
        self, size: int = 8, levels: Sequence[float] = (0.0, 0.3, 0.6, 0.9), *, flow: bool = False
    ) -> None:
        if not levels or not all(0 <= level <= 1 for level in levels):
            raise ValueError(f"levels are some numbers in [0, 1], got {levels}")
        super().__init__(size, flow=flow)
        self.levels = tuple(map(float, levels))

    def _start(self, plan: TaskPlan, workers: Workers) -> list[Episode]:
        return [
            workers.env.start(
                derive(plan.key, "episode", i), task=plan.task,
                params={**plan.params, "noise": self.levels[i % len(self.levels)]},
                episode_id=f"{plan.name}.{i}",
            )
            for i in range(self.size)
        ]  # fmt: skip
