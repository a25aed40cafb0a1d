"""R³L's advantages (arXiv 2601.03715): what was tried twice is trained on from where the tries
part."""

from __future__ import annotations

from typing import ClassVar

import torch

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot
from .base import Coef


class Pivotal(Slot):
    """1 for a reward of at least ``solved``; else R - b, times ``raised`` where it is not negative,
    b being the mean of first and second tries. What a first try wrote before the second one left it
    is not trained on, and the second one does not hold it. Use it with ``opmd``.

    Args:
        solved: Reward of a success.
        raised: Factor on what is no success and above the mean.
    """

    registered = "pivotal"
    relative: ClassVar[bool] = False

    def __init__(self, solved: float = 1.0, raised: float = 3.0) -> None:
        self.solved, self.raised = float(solved), float(raised)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        groups = RewardGroups(batch.reward, batch.group)
        above = groups.reward - groups.mean[groups.index]
        made = torch.where(above >= 0, self.raised * above, above)
        made = torch.where(groups.reward >= self.solved, torch.ones_like(made), made)
        made = torch.where(groups.scored, made, torch.zeros_like(made))
        return Estimate(made, mask=self._after(batch))

    @staticmethod
    def _after(batch: Batch) -> torch.Tensor | None:
        """(N, T) tokens that no second try has in common with its first."""
        if batch.number is None or batch.parent is None or batch.since is None:
            return None
        left = batch.parent[None, :] == batch.number[:, None]
        never = torch.iinfo(torch.long).max
        at = torch.where(left, batch.since[None, :], torch.full_like(batch.since, never)[None, :])
        first = at.amin(1)
        pivot = torch.where(first == never, torch.zeros_like(first), first)
        return batch.mask & (batch.turn >= pivot[:, None])
