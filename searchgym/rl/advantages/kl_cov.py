"""KL-Cov (arXiv 2505.22617): tokens that use up the entropy are picked for a KL loss."""

from __future__ import annotations

from typing import Any, ClassVar

from ..ops.covariance import kl_cov_tokens
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Over


class KLCov(Over):
    """KL-Cov: ``base``'s advantages unchanged; the tokens of highest covariance are ``picked`` for
    the loss ``kl_cov``, beside an unclipped policy loss (same source).

    Args:
        share: Share of all tokens, at least one.
    """

    registered = "kl_cov"
    needs = frozenset({"old_logp"})
    provides = frozenset({"picked"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", share: float = 2e-4) -> None:
        super().__init__(base)
        if not 0 < share <= 1:
            raise ValueError(f"0 < share ≤ 1, got {share}")
        self.share = float(share)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        counted = batch.mask & ~batch.reward.isnan()[:, None]
        old = batch.need("old_logp")
        batch.notes["picked"] = kl_cov_tokens(made.adv, old, counted, share=self.share) > 0
        return made
