"""Rewards without comparison in a group: REINFORCE, REINFORCE++, ReMax, and 1 for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...objects import Remembering
from ..ops.ratios import kl
from ..ops.tokens import masked, spread, whiten
from ..ops.turns import reward_to_go
from ..slots.batch import Batch, Estimate
from ..slots.protocols import AdvantageEstimator, Coef


@dataclass(slots=True)
class RunningMean(Remembering):
    """A baseline from *earlier* batches: read ``value`` first, then ``update``.

    A mean that holds the sample itself would bias the gradient.

    Args:
        momentum: 0: the plain mean of everything so far; 0.9: mostly the last ten batches.
    """

    remembers = ("value", "count")

    momentum: float = 0.0
    value: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}")

    def update(self, reward: Tensor) -> None:
        """Take in a batch's rewards, of any shape; NaN does not count."""
        known = reward.detach()[~torch.isnan(reward)]
        if not known.numel():
            return
        mean = float(known.mean())
        if not math.isfinite(mean):
            raise ValueError("a reward is infinite; use NaN for what cannot be scored")
        if self.momentum and self.count:
            self.value = self.momentum * self.value + (1 - self.momentum) * mean
        else:
            share = known.numel() / (self.count + known.numel())
            self.value += share * (mean - self.value)
        self.count += known.numel()


class Reinforce(AdvantageEstimator):
    """The reward minus a baseline: ``"mean"`` of all *earlier* batches' rewards, or a number."""

    registered = "reinforce"

    def __init__(self, baseline: str | float = "mean", momentum: float = 0.0) -> None:
        if isinstance(baseline, str) and baseline != "mean":
            raise ValueError(f"baseline is 'mean' or a number, got {baseline!r}")
        self.fixed = None if isinstance(baseline, str) else float(baseline)
        self.mean = RunningMean(momentum)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        baseline = self.mean.value if self.fixed is None else self.fixed
        if self.fixed is None:
            if not self.mean.count:  # nothing known yet: the batch's own mean, biased this once
                first = batch.reward[~batch.reward.isnan()]
                baseline = float(first.mean()) if len(first) else 0.0
            self.mean.update(batch.reward)
        adv = batch.reward.detach() - baseline
        return Estimate(torch.where(adv.isnan(), torch.zeros_like(adv), adv))

    def state_dict(self) -> dict[str, Any]:
        return dict(self.mean.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.mean.load_state_dict(dict(state))


class ReinforcePP(AdvantageEstimator):
    """The reward to go, with ``beta`` (or ``coef["beta"]``) times KL in it, whitened over the
    batch's tokens. None: without KL and reference; ``coef["beta"]`` is then another's."""

    registered = "reinforce_pp"

    def __init__(self, beta: float | None = None, gamma: float = 1.0) -> None:
        self.beta, self.gamma = beta, float(gamma)
        self.requires = frozenset(() if beta is None else {"ref_logp", "old_logp"})
        self.reads = frozenset(() if beta is None else {"beta"})
        self.invariant = frozenset({"scale"} if beta is None else ())

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        beta = 0.0 if self.beta is None else coef.get("beta", self.beta)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        reward = batch.token_reward()
        if beta:
            penalty = kl(batch.need("old_logp"), batch.need("ref_logp"), "k1").detach()
            reward = reward - beta * masked(penalty, mask)
        return Estimate(whiten(reward_to_go(reward, mask, self.gamma), mask))


class ReMax(AdvantageEstimator):
    """The reward to go minus the reward of a greedy rollout of the same task. Needs ``{use =
    "chains", greedy_twin = true}``."""

    registered = "remax"
    requires = frozenset({"baseline"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        greedy = torch.where(batch.reward.isnan(), batch.reward, batch.need("baseline"))
        adv = reward_to_go(batch.token_reward(), batch.mask) - spread(greedy, batch.mask)
        adv = torch.where(adv.isnan(), torch.zeros_like(adv), adv)
        return Estimate(masked(adv, batch.mask))


class Ones(AdvantageEstimator):
    """1 for every trajectory; 0 for those that cannot be scored."""

    registered = "ones"
    invariant = frozenset({"shift", "scale"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        ones = torch.ones_like(batch.reward)
        return Estimate(torch.where(batch.reward.isnan(), torch.zeros_like(ones), ones))
