"""REINFORCE++-baseline (arXiv 2501.03262): the group's mean first, then the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from ..ops.groups import RewardGroups
from ..ops.tokens import require_batch, spread, whiten
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


def reinforce_pp_baseline_advantages(reward: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """(B, T) R - mean of the group, whitened over the batch's tokens (long ones weigh more).

    Args:
        reward, group: (B,). mask: (B, T). Unscorable trajectories (NaN) take no part in whitening.
    """
    require_batch(mask, reward=reward)
    groups = RewardGroups(reward, group)
    adv = groups.advantage(groups.reward - groups.mean[groups.index])
    counted = (mask > 0) & groups.scored[:, None]
    return whiten(spread(adv, mask), counted)


class ReinforcePPBaseline(Slot):
    """The reward minus its group's mean, whitened over the batch's tokens: so a group of equal
    rewards gets what the batch's mean is away from 0."""

    registered = "reinforce_pp_baseline"
    relative: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        return Estimate(reinforce_pp_baseline_advantages(batch.reward, batch.group, batch.mask))
