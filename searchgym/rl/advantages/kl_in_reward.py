"""KL to the reference as a price in the reward, over any estimator (arXiv 1909.08593)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch

from ..ops.ratios import Estimator, kl
from ..ops.tokens import masked
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Over


class KLInReward(Over):
    """Every token pays ``beta`` (or ``coef["beta"]``) times its KL to the reference; what is left
    of the rewards goes to ``base``: token by token to those that read tokens' rewards, summed to
    those that compare whole trajectories (Ziegler et al., arXiv 1909.08593).

    Args:
        how: The estimator; k1 is unbiased.
    """

    registered = "kl_in_reward"
    reads = frozenset({"beta"})
    needs = frozenset({"ref_logp", "old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({"beta": 0.0}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", beta: float = 0.001, how: Estimator = "k1") -> None:
        super().__init__(base)
        self.beta = float(beta)
        self.how: Estimator = how
        kl(torch.zeros(1), torch.zeros(1), how)  # an unknown one fails now

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        old, ref = (masked(batch.need(n), batch.mask) for n in ("old_logp", "ref_logp"))
        price = coef.get("beta", self.beta) * kl(old, ref, self.how)
        price = masked(price, batch.mask)
        paid = -price if batch.turn_reward is None else batch.turn_reward - price
        left = replace(batch, turn_reward=paid, reward=batch.reward - price.sum(1))
        made: Estimate = self.base.estimate(left, coef)
        batch.returns, batch.value_mask = left.returns, left.value_mask
        return made
