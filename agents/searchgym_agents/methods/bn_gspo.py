"""Any estimator's advantages, normalised once more over the batch (BN-GSPO, arXiv 2512.24330)."""

from __future__ import annotations

from typing import Any

import torch

from searchgym.rl import Batch, Coef, Estimate, Over


class BatchNorm(Over):
    """(A - mean) / (standard deviation + ``eps``) of ``base``'s advantages over the trajectories of
    the step; where base tells tokens apart, over its tokens (SenseNova-MARS, arXiv 2512.24330).

    Groups of equal rewards, which have advantage 0, count and get minus the mean, which is near 0.
    """

    registered = "advantage:batch_norm"

    def __init__(self, base: Any = "grpo", eps: float = 1e-6) -> None:
        super().__init__(base)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        counted = ~batch.reward.isnan() & (batch.length > 0)
        if made.adv.ndim == 2:
            counted = batch.mask & counted[:, None]
        known = made.adv[counted]
        if len(known) < 2 or bool((known == known[0]).all()):
            return made._replace(adv=torch.zeros_like(made.adv))
        apart = (made.adv - known.mean()) / (known.std() + self.eps)
        return made._replace(adv=torch.where(counted, apart, torch.zeros_like(apart)))
