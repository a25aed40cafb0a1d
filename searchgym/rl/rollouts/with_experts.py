"""Chains, and an expert's episodes of the same task in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..slots.records import Group, TaskPlan, Workers
from .chains import Chains
from .demonstrations import Demonstrations


class WithExperts(Chains):
    """Chains, and ``experts`` episodes of an expert, which are marked as such (``Batch.expert``)
    and have no sampling log-probabilities.

    Estimators and losses see them unless told otherwise: ``{use = "among", members = "played"}``
    keeps them out of baselines or of a loss.

    Args:
        size: Episodes of the policy.
        expert: As in :class:`~searchgym.rl.rollouts.demonstrations.Demonstrations`; default: the
            oracle of the setting's tasks.
        experts: Episodes of the expert.
    """

    registered = "with_experts"
    adds = frozenset({"expert"})
    unsampled = True

    def __init__(
        self, size: int = 8, *, expert: Any = None, experts: int = 1, flow: bool = False
    ) -> None:
        super().__init__(size, flow=flow)
        self.demonstrations = Demonstrations(expert, size=experts)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        played = super().collect(plans, workers)
        shown = self.demonstrations.play(plans, workers, "expert-")
        return [
            replace(own, members=(*own.members, *(replace(m, purpose="expert") for m in theirs)))
            for own, theirs in zip(played, (g.members for g in shown), strict=True)
        ]
