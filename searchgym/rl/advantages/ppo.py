"""PPO's advantages, from a critic's values; the KL to a reference as a price in the reward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch

from ..ops.ratios import Estimator, kl
from ..ops.tokens import masked, whiten
from ..ops.turns import bi_level_gae, token_gae, turn_gae, turn_starts
from ..slots.batch import Batch, Estimate
from ..slots.protocols import AdvantageEstimator, Reduction
from .base import Coef, Over


class PPO(AdvantageEstimator):
    """GAE over tokens, over turns, or over turns and then the tokens of each (``"bi-level"``),
    whitened over the batch's tokens. The critic is asked at first tokens where a level is turns."""

    registered = "ppo"
    requires = frozenset({"value"})

    def __init__(
        self,
        level: Literal["token", "turn", "bi-level"] = "token",
        gamma: float = 1.0,
        lam: float = 1.0,
        turn_gamma: float = 0.95,
    ) -> None:
        if level not in ("token", "turn", "bi-level"):
            raise ValueError(f"level is 'token', 'turn' or 'bi-level', got {level!r}")
        for name, value in (("gamma", gamma), ("lam", lam), ("turn_gamma", turn_gamma)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is in [0, 1], got {value}")
        self.level, self.gamma, self.lam = level, float(gamma), float(lam)
        self.turn_gamma = float(turn_gamma)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        reward = batch.token_reward()
        value, gamma, lam = batch.need("value"), self.gamma, self.lam
        asked = mask
        if self.level == "token":
            adv, returns = token_gae(reward, value, mask, gamma=gamma, lam=lam)
        elif self.level == "turn":
            adv, returns = turn_gae(reward, value, batch.turn, mask, gamma=gamma, lam=lam)
            asked = turn_starts(batch.turn, mask)
        else:
            adv, returns = bi_level_gae(
                reward, value, batch.turn, mask, gamma=gamma, lam=lam, turn_gamma=self.turn_gamma
            )
        return Estimate(whiten(adv, mask), returns=returns, value_mask=asked)


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
    reductions = (Reduction({"beta": 0.0}, {"use": "grpo"}),)

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
        return self.base.estimate(left, coef)
