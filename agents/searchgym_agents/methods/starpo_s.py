"""StarPO-S: of a step's questions those are trained on whose outcomes differ most."""

from __future__ import annotations

import math
from typing import Any

import torch

from searchgym.rl import Batch, Coef, Estimate, Over


class Uncertain(Over):
    """``base``, of which the losses see a share of the groups: those with the largest standard
    deviation of rewards, at least one; of equal ones the first (RAGEN's uncertainty-based
    filtering, arXiv 2504.20073).

    Args:
        keep: Share of a step's groups, in (0, 1], rounded up.
    """

    registered = "advantage:uncertain"

    def __init__(self, base: Any = "grpo", keep: float = 0.25) -> None:
        if not 0 < keep <= 1:
            raise ValueError(f"keep is in (0, 1], got {keep}")
        super().__init__(base)
        self.keep = float(keep)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        kept = uncertain(batch.reward, batch.group, self.keep)
        mask = kept[:, None] & torch.ones_like(batch.mask)
        return self.base.estimate(batch, coef).within(mask)


def uncertain(reward: torch.Tensor, group: torch.Tensor, keep: float) -> torch.Tensor:
    """(N,) bool: trajectories of the share ``keep`` of groups whose rewards spread most."""
    spread = {}
    for number in dict.fromkeys(group.tolist()):
        known = reward[group == number]
        known = known[~known.isnan()].double()
        spread[number] = float(known.std(correction=0)) if len(known) else 0.0
    order = sorted(spread, key=lambda number: -round(spread[number], 9))
    chosen = order[: math.ceil(round(keep * len(order), 9))]
    return torch.isin(group, torch.tensor(chosen))
