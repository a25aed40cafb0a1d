"""Replayed trajectories compared with what groups earn by now (SPEAR, arXiv 2509.22601)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..ops.groups import RewardGroups
from ..ops.mask import spread
from ..slots.batch import Batch, Estimate
from .among import Among
from .base import Coef


class SelfImitation(Among):
    """``base`` on the members that were played; R - median of the groups' mean rewards of the last
    ``window`` steps on those that were replayed. Where that is not positive, a replayed trajectory
    is not trained on: what was good then is no longer.

    Args:
        window: Steps, this one included.
    """

    registered = "self_imitation"

    def __init__(self, base: Any = "dr_grpo", window: int = 10) -> None:
        super().__init__(base, "played")
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        self.window = window
        self.means: list[list[float]] = []
        """Mean rewards of each step's groups."""

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = super().estimate(batch, coef)
        played = batch.among(["played"])
        groups = RewardGroups(batch.reward[played], batch.group[played])
        means = groups.mean[groups.count > 0]
        self.means = [*self.means, means.tolist()][-self.window :]
        again = batch.replayed & ~batch.reward.isnan()
        if not bool(again.any()) or not any(self.means):
            return made
        median = float(torch.tensor([m for step in self.means for m in step]).quantile(0.5))
        lead = torch.where(again, torch.nan_to_num(batch.reward) - median, 0.0).clamp_min(0)
        adv = torch.where(again[:, None], lead[:, None] * batch.mask, spread(made.adv, batch.mask))
        better = (~batch.replayed | (lead > 0))[:, None].expand(batch.mask.shape)
        mask = better if made.mask is None else better & made.mask
        return made._replace(adv=adv.to(made.adv.dtype), mask=mask)

    def state_dict(self) -> dict[str, Any]:
        return {"base": super().state_dict(), "means": self.means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["base"])
        self.means = [list(map(float, step)) for step in state["means"]]
