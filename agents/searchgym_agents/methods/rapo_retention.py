"""RaPO: trajectories near the policy before this task earn more, compared across tasks."""

from __future__ import annotations

import torch
from torch import Tensor

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate
from searchgym.rl.ops import kl, masked


def retention(divergence: Tensor, tau: float = 0.1) -> Tensor:
    """exp(-KL / ``tau``): 1 where nothing has moved."""
    return torch.exp(-divergence / tau)


class Retention(AdvantageEstimator):
    """A = (R' - μ) / (σ + ``eps``) with R' = R + ``weight`` · exp(-KL / ``tau``); KL is the mean k3
    of a trajectory's tokens to the reference, and μ and σ are running means over the steps of the
    batch's mean and standard deviation of R', so that one task's advantages are on the scale of
    those before.

    The reference is the policy before this task: the model that training begins with
    (``TrainableLM(…, reference=True)``).

    Args:
        weight: λ.
        tau: τ, in nats per token.
        momentum: Share of the running means that is kept at each step; the first step's are its
            own.
    """

    registered = "advantage:retention"
    remembers = ("scale",)
    requires = frozenset({"ref_logp", "old_logp"})

    def __init__(
        self, weight: float = 0.1, tau: float = 0.1, momentum: float = 0.9, eps: float = 1e-6
    ) -> None:
        if not tau > 0 or not 0 <= momentum < 1:
            raise ValueError(f"tau is positive and momentum in [0, 1), got {tau}, {momentum}")
        self.weight, self.tau, self.momentum = float(weight), float(tau), float(momentum)
        self.eps = float(eps)
        self.scale: tuple[float, float] | None = None
        """μ and σ."""

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        old, ref = (masked(batch.need(n), batch.mask) for n in ("old_logp", "ref_logp"))
        moved = masked(kl(old, ref, "k3"), batch.mask).sum(1) / batch.length.clamp_min(1)
        reward = batch.reward + self.weight * retention(moved, self.tau)
        known = reward[~reward.isnan()]
        if len(known):
            now = float(known.mean()), float(known.std(correction=0))
            before = self.scale or now
            self.scale = (
                self.momentum * before[0] + (1 - self.momentum) * now[0],
                self.momentum * before[1] + (1 - self.momentum) * now[1],
            )
        if self.scale is None:
            return Estimate(torch.zeros_like(batch.reward))
        mean, std = self.scale
        return Estimate(torch.nan_to_num((reward - mean) / (std + self.eps)))
