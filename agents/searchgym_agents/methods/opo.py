"""OPO (arXiv 2505.23585): the baseline of least variance when gradients grow with length."""

from __future__ import annotations

from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Reduction, Relative
from searchgym.rl.ops import RewardGroups, require_rows


def opo_advantages(reward: Tensor, group: Tensor, length: Tensor) -> Tensor:
    """(B,) R_i - Σ L_j R_j / Σ L_j over its group. Made for strictly on-policy training.

    Args:
        length: (B,) unmasked tokens of each trajectory; those without any get 0.
    """
    require_rows(reward=reward, length=length)
    groups = RewardGroups(reward, group)
    length = length.to(groups.reward.dtype)
    total = groups.sum(length).clamp_min(1)
    baseline = groups.sum(length * groups.reward) / total
    return groups.advantage((groups.reward - baseline[groups.index]) * (length > 0))


class OPO(Relative):
    """R - mean weighted by length; Dr.GRPO where all are equally long."""

    registered = "advantage:opo"
    invariant = frozenset({"shift"})
    reductions = (Reduction({}, {"use": "dr_grpo"}, where="one token"),)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(opo_advantages(batch.reward, batch.group, batch.length))
