"""GRPO in which the tokens that use up the entropy are held back (KL-Cov)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over, Reduction, WeightedLoss
from searchgym.rl.ops import log_ratio, masked_mean

from .clip_cov import kl_cov_tokens


class KLCov(Over):
    """KL-Cov: ``base``'s advantages unchanged; the tokens of highest covariance are ``picked`` for
    the loss ``kl_cov``, beside an unclipped policy loss (same source).

    Args:
        share: Share of all tokens, at least one.
    """

    registered = "advantage:kl_cov"
    needs = frozenset({"old_logp"})
    provides = frozenset({"picked"})
    reductions = (Reduction({}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", share: float = 2e-4) -> None:
        super().__init__(base)
        if not 0 < share <= 1:
            raise ValueError(f"0 < share ≤ 1, got {share}")
        self.share = float(share)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        counted = batch.mask & ~batch.reward.isnan()[:, None]
        old = batch.need("old_logp")
        picked = kl_cov_tokens(made.adv, old, counted, share=self.share) > 0
        return made._replace(notes={**made.notes, "picked": picked})


class KLCovLoss(WeightedLoss):
    """``|log π - log π_old|`` on the tokens that the estimator ``kl_cov`` picked. What the sum is
    divided by counts all tokens."""

    registered = "loss:kl_cov"
    off_policy: ClassVar[tuple[str, ...]] = ("weight",)
    name = "kl_cov"
    requires = frozenset({"old_logp", "picked"})

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        value = log_ratio(logp, batch.need("old_logp"), batch.mask).abs()
        return value * batch.note("picked"), {"kl": masked_mean(value, batch.mask)}
