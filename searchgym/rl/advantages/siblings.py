"""V-STAR's sibling advantages (arXiv 2602.10699): where a tree branches, children are compared."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..ops.branches import State, mean, segments
from ..ops.groups import RewardGroups, Std, checked_std
from ..ops.mask import masked, spread
from ..slots.batch import Batch, Estimate
from .base import Coef, Over


class Siblings(Over):
    """``base`` + ``weight`` · (R̄ - mean) / (std + ``eps``) on the first turn of what was written
    from a state that several went on from. R̄ is the mean reward of the leaves that hold the turn;
    mean and standard deviation are those of R̄ over the turns written from that state.

    The paper compares tokens of a prefix tree; here they are the turns of a recorded tree, and
    equal texts are not merged (ours). Chains are siblings at the question.

    Args:
        base: The paper's GRPO trains on every leaf's whole path: ``branches`` with ``share =
            "copies"``.
        weight: Or ``coef["siblings"]`` (paper: 1).
    """

    registered = "siblings"
    reads = frozenset({"siblings"})

    def __init__(
        self, base: Any = "branches", weight: float = 1.0, std: Std = "population",
        eps: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(base)
        self.weight, self.eps = float(weight), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        reward = batch.reward.double().tolist()
        worth = [mean([reward[i] for i in s.leaves if not math.isnan(reward[i])]) for s in spans]
        states: dict[State, int] = {}
        where = [states.setdefault(s.state, len(states)) for s in spans]
        groups = RewardGroups(torch.tensor(worth, dtype=torch.double), torch.tensor(where))
        apart = groups.reward - groups.mean[groups.index]
        score = groups.advantage(apart / (groups.std(self.std)[groups.index] + self.eps))
        more = torch.zeros(mask.shape)
        for segment, value in zip(spans, score.tolist(), strict=True):
            more[segment.line][batch.turn[segment.line] == segment.first] = value
        weight = coef.get("siblings", self.weight)
        return made._replace(adv=spread(made.adv, mask) + weight * masked(more, mask))
