"""Groups of which some members may not search: they show what the policy knows without."""

from __future__ import annotations

from ...core.episode import Episode
from ...seeding import derive
from ..slots.records import Played, TaskPlan, Workers
from .chains import Chains


class HalfClosed(Chains):
    """Chains whose first ``closed`` members are played with searching disabled (SAAS, arXiv
    2605.29796: 4 of 8). A search of theirs is an invalid action, and they are trained on, too.

    Args:
        size: Episodes of a group.
        closed: Number of them without search; at least one of either kind.
    """

    registered = "half_closed"

    def __init__(self, size: int = 8, closed: int = 4, *, flow: bool = False) -> None:
        if not 0 < closed < size:
            raise ValueError(f"closed must be between 1 and size - 1 = {size - 1}, got {closed}")
        super().__init__(size, flow=flow)
        self.closed = closed

    def _start(self, plan: TaskPlan, workers: Workers) -> list[Episode]:
        return [
            workers.env.start(
                derive(plan.key, "episode", i), task=plan.task, params=plan.params,
                search_enabled=False if i < self.closed else None, episode_id=f"{plan.name}.{i}",
            )
            for i in range(self.size)
        ]  # fmt: skip


def closed_book(member: Played) -> bool:
    """Check whether a member was played with searching disabled."""
    return not member.episode.config.search_enabled
