"""What stands over another estimator: KL in the reward, tokens that use up the entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...seeding import derive
from ..kernels.covariance import clip_cov_weight, kl_cov_tokens
from ..kernels.kl import Estimator, kl
from ..kernels.mask import masked, spread
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction, Slot
from ..slots.registry import make

Coef = Mapping[str, float]


class Over(Slot):
    """Has a ``base``: an estimator, as in a recipe."""

    relative: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    """What it reads besides."""

    def __init__(self, base: Any = "grpo") -> None:
        self.base = make("advantage", base)
        self.requires = frozenset(self.needs | self.base.requires)
        self.provides = frozenset(type(self).provides | self.base.provides)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.base.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.base.load_state_dict(state)

    def tensors(self) -> Mapping[str, Tensor]:
        found: Mapping[str, Tensor] = getattr(self.base, "tensors", dict)()
        return found

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            self.base.load_tensors(tensors)


class KLInReward(Over):
    """Every token pays ``beta`` (or ``coef["beta"]``) times its KL to the reference; what is left
    of the rewards goes to ``base``: token by token to those that read tokens' rewards, summed to
    those that compare whole trajectories (Ziegler et al., arXiv 1909.08593).

    Args:
        how: The estimator; k1 is unbiased.
    """

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


class ClipCov(Over):
    """Clip-Cov: ``base``'s advantages, 0 on a few random tokens of high covariance between
    log-probability and advantage (Cui et al., arXiv 2505.22617).

    They are drawn once per step, among the whole batch and under the weights that played it, where
    no ratio is clipped yet; the paper draws them anew for each mini-batch.

    Args:
        share: Of all tokens, at least one.
        low, high: The covariances between which a token may be drawn.
        seed: Of the draws, with the number of the step.
    """

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
        super().__init__(base)
        if not 0 < share <= 1 or low >= high:
            raise ValueError(f"0 < share ≤ 1 and low < high, got {share}, {low}, {high}")
        self.share, self.low, self.high, self.seed = float(share), float(low), float(high), seed
        self.steps = 0

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        draw = torch.Generator().manual_seed(derive(self.seed, "clip-cov", self.steps) % (1 << 62))
        self.steps += 1
        counted = batch.mask & ~batch.reward.isnan()[:, None]
        weight = clip_cov_weight(
            made.adv, batch.need("old_logp"), counted, torch.zeros_like(counted),
            generator=draw, share=self.share, low=self.low, high=self.high,
        )  # fmt: skip
        return made._replace(adv=spread(made.adv, batch.mask) * weight)

    def state_dict(self) -> dict[str, Any]:
        return {"base": self.base.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.base.load_state_dict(state["base"])
        self.steps = int(state["steps"])


class KLCov(Over):
    """KL-Cov: ``base``'s advantages unchanged; the tokens of highest covariance are ``picked`` for
    the loss ``kl_cov``, beside an unclipped policy loss (same source).

    Args:
        share: Of all tokens, at least one.
    """

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
