"""Clip-Cov (arXiv 2505.22617): a few tokens that use up the entropy do not learn."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ...seeding import derive
from ..ops.covariance import clip_cov_weight
from ..ops.mask import spread
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, DrawingOver


class ClipCov(DrawingOver):
    """Clip-Cov: ``base``'s advantages, 0 on a few random tokens of high covariance between
    log-probability and advantage (Cui et al., arXiv 2505.22617).

    They are drawn once per step, among the whole batch and under the weights that played it, where
    no ratio is clipped yet; the paper draws them anew for each mini-batch.

    Args:
        share: Share of all tokens, at least one.
        low, high: The covariances between which a token may be drawn.
        seed: Seed of the draws, with the number of the step.
    """

    registered = "clip_cov"
    needs = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"low": 1e9, "high": 2e9}, {"use": "grpo"}),
    )

    def __init__(
        self,
        base: Any = "grpo",
        share: float = 2e-4,
        low: float = 1.0,
        high: float = 5.0,
        seed: int = 0,
    ) -> None:
        super().__init__(base, seed)
        if not 0 < share <= 1 or low >= high:
            raise ValueError(f"0 < share ≤ 1 and low < high, got {share}, {low}, {high}")
        self.share, self.low, self.high = float(share), float(low), float(high)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        base_estimate: Estimate = self.base.estimate(batch, coef)
        draw = torch.Generator().manual_seed(derive(self.seed, "clip-cov", self.steps) % (1 << 62))
        self.steps += 1
        counted = batch.mask & ~batch.reward.isnan()[:, None]
        weight = clip_cov_weight(
            base_estimate.adv, batch.need("old_logp"), counted, torch.zeros_like(counted),
            generator=draw, share=self.share, low=self.low, high=self.high,
        )  # fmt: skip
        return base_estimate._replace(adv=spread(base_estimate.adv, batch.mask) * weight)
