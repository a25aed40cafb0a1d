"""GRPO for pass@k (arXiv 2503.19595): only the best of a group learns, by its lead."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.groups import RewardGroups, Std
from ..slots.batch import Batch, Estimate
from .base import Coef
from .grpo import GRPO


def passk_advantages(
    reward: Tensor, group: Tensor, *, std: Std = "sample", eps: float = 1e-6
) -> Tensor:
    """(B,) the best of each group gets (best - second best) / (std + ``eps``), others 0.

    A tie for the best is a lead of 0. Unlike the other group methods this one is not centred.
    """
    groups = RewardGroups(reward, group)
    lowest = torch.full_like(groups.mean, -torch.inf)
    known = torch.where(groups.scored, groups.reward, torch.full_like(groups.reward, -torch.inf))
    best = lowest.scatter_reduce(0, groups.index, known, "amax")[groups.index]
    leads = known == best
    second = torch.where(leads, torch.full_like(known, -torch.inf), known)
    second = lowest.scatter_reduce(0, groups.index, second, "amax")[groups.index]
    alone = groups.sum(leads.to(known.dtype))[groups.index] == 1
    lead = (groups.reward - second) / (groups.std(std) + eps)[groups.index]
    return groups.advantage(torch.where(leads & alone, lead, torch.zeros_like(lead)))


class PassK(GRPO):
    """The best one's lead, for the best one alone."""

    registered = "passk"

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(passk_advantages(batch.reward, batch.group, std=self.std, eps=self.eps))
