"""Stale tokens that have moved too far get no advantage (M2PO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..ops.mask import masked
from ..ops.ratio import log_ratio
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Over


def m2po_keep(old_logp: Tensor, sampled_logp: Tensor, mask: Tensor, *, tau: float = 0.04) -> Tensor:
    """M2PO (arXiv 2510.01161): (B, T) bool, the unmasked tokens that may learn. Those that moved
    most since they were drawn are left out, by rank, until the mean of ``(log w)²`` over the rest
    is at most ``tau``."""
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    moved = log_ratio(old_logp, sampled_logp, mask).detach() ** 2
    inside = mask > 0
    ranked = moved[inside].double().sort().values
    counts = torch.arange(1, len(ranked) + 1, device=ranked.device)
    within = (ranked.cumsum(0) / counts) <= tau  # true, then false: means of a sorted list grow
    kept = int(within.sum())
    if kept == len(ranked):
        return inside
    limit = ranked[kept]  # the first that is too much; all equal to it go, whatever their order
    return inside & (masked(moved, mask).double() < limit)


class M2PO(Over):
    """Another estimator's advantages, 0 on the tokens that :func:`m2po_keep` leaves out.

    They are chosen among the whole batch, before it is cut into parts; what the loss is divided by
    does not change. Use with the loss ``ppo`` or ``decoupled``.

    Args:
        base: An estimator as in a recipe.
        tau: Mean of the squared log-ratios that are left.
    """

    registered = "m2po"
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
