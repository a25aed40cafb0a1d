"""Stale tokens that have moved too far get no advantage (M2PO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ..losses.decoupled import m2po_keep
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .over import Over


class M2PO(Over):
    """Another estimator's advantages, 0 on the tokens that :func:`m2po_keep` leaves out.

    They are chosen among the whole batch, before it is cut into parts; what the loss is divided by
    does not change. Use with the loss ``ppo`` or ``decoupled``.

    Args:
        base: An estimator as in a recipe.
        tau: Mean of the squared log-ratios that are left.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({"tau": 1e9}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", tau: float = 0.04) -> None:
        if tau <= 0:
            raise ValueError(f"tau must be positive, got {tau}")
        super().__init__(base)
        self.tau = float(tau)

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        made = self.base.estimate(batch, coef)
        adv = made.adv
        keep = m2po_keep(batch.need("old_logp"), batch.sampled_logp, batch.mask, tau=self.tau)
        wide = adv[:, None].expand(batch.mask.shape) if adv.ndim == 1 else adv
        return made._replace(adv=torch.where(keep, wide, torch.zeros_like(wide)))
