"""Advantages scaled up where few groups teach anything (Fathom's RAPO, arXiv 2509.24107)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from .base import Coef, Over


def group_scale(reward: Tensor, group: Tensor) -> float:
    """Groups / groups whose rewards differ; 1 where none do."""
    groups = RewardGroups(reward, group)
    telling = len(groups.index[groups.differs].unique())
    return len(groups.count) / telling if telling else 1.0


class GroupScaled(Over):
    """``base``'s advantages times :func:`group_scale` of the step's batch: a step of few telling
    groups moves the policy as far as one of many."""

    registered = "group_scaled"
    invariant: ClassVar[frozenset[str]] = frozenset()

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        return made._replace(adv=made.adv * group_scale(batch.reward, batch.group))
