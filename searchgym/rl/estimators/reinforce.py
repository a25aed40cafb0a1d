"""REINFORCE and REINFORCE++: no groups, or groups and then the whole batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..advantages.reinforce import RunningMean, reinforce_advantages
from ..advantages.reinforce_pp import (
    reinforce_pp_advantages,
    reinforce_pp_baseline_advantages,
)
from ..kernels.kl import kl
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


class Reinforce(Slot):
    """The reward minus a baseline: ``"mean"`` of all *earlier* batches' rewards, or a number."""

    relative: ClassVar[bool] = False

    def __init__(self, baseline: str | float = "mean", momentum: float = 0.0) -> None:
        if isinstance(baseline, str) and baseline != "mean":
            raise ValueError(f"baseline is 'mean' or a number, got {baseline!r}")
        self.fixed = None if isinstance(baseline, str) else float(baseline)
        self.mean = RunningMean(momentum)

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        if self.fixed is not None:
            return Estimate(reinforce_advantages(batch.reward, self.fixed))
        if not self.mean.count:  # nothing known yet: the batch's own mean, biased this once
            first = batch.reward[~batch.reward.isnan()]
            baseline = float(first.mean()) if len(first) else 0.0
        else:
            baseline = self.mean.value
        self.mean.update(batch.reward)
        return Estimate(reinforce_advantages(batch.reward, baseline))

    def state_dict(self) -> dict[str, Any]:
        return dict(self.mean.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.mean.load_state_dict(dict(state))


class ReinforcePP(Slot):
    """The reward to go, with ``beta`` (or ``coef["beta"]``) times KL in it, whitened over the
    batch's tokens. None: without KL and reference; ``coef["beta"]`` is then another's."""

    relative: ClassVar[bool] = False

    def __init__(self, beta: float | None = None, gamma: float = 1.0) -> None:
        self.beta, self.gamma = beta, float(gamma)
        self.requires = frozenset(() if beta is None else {"ref_logp", "old_logp"})
        self.invariant = frozenset({"scale"} if beta is None else ())

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        beta = 0.0 if self.beta is None else coef.get("beta", self.beta)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        penalty = None
        if beta:
            penalty = kl(batch.need("old_logp"), batch.need("ref_logp"), "k1")
        made = reinforce_pp_advantages(
            batch.token_reward(), mask, kl=penalty, beta=beta, gamma=self.gamma
        )
        return Estimate(made)


class ReinforcePPBaseline(Slot):
    """The reward minus its group's mean, whitened over the batch's tokens: so a group of equal
    rewards gets what the batch's mean is away from 0."""

    relative: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        return Estimate(reinforce_pp_baseline_advantages(batch.reward, batch.group, batch.mask))
