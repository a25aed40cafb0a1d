"""RaPO: rewards for staying near the policy of an earlier time, compared with the run's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..ops.kl import Estimator, kl
from ..ops.mask import masked
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot
from .base import Coef


def retained(
    reward: Tensor, old_logp: Tensor, ref_logp: Tensor, mask: Tensor, *, weight: float = 0.5,
    tau: float = 0.1, how: Estimator = "k3",
) -> Tensor:  # fmt: skip
    """(B,) R + ``weight`` · exp(-KL / ``tau``), KL the mean over a trajectory's tokens; k3 is never
    negative, so that at most ``weight`` is added. NaN where R is."""
    gap = kl(masked(old_logp, mask), masked(ref_logp, mask), how)
    mean = masked(gap, mask).sum(1) / mask.sum(1).clamp_min(1)
    return reward.detach() + weight * torch.exp(-mean / tau)


class Retention(Slot):
    """(R' - μ) / (σ + ``eps``), with R' = R + ``weight`` · exp(-KL / ``tau``) and μ, σ the mean and
    standard deviation of R' in the run so far: moving averages that a new task does not reset (RaPO
    for continual training). KL is a trajectory's, to the reference; let that be the policy of the
    task before by a recipe's table ``[reference]``. The paper's formulas were not found (ours).

    Args:
        weight: Reward for being where the reference is, or ``coef["retention"]``.
        tau: KL, in nats per token, at which 1/e of it is left.
        momentum: Share of a new batch in the moving averages; the first one sets them.
    """

    registered = "retention"
    relative: ClassVar[bool] = False
    requires = frozenset({"old_logp", "ref_logp"})
    reads = frozenset({"retention"})

    def __init__(
        self, weight: float = 0.5, tau: float = 0.1, momentum: float = 0.1, how: Estimator = "k3",
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        if not tau > 0 or not 0 < momentum <= 1:
            raise ValueError(f"tau is above 0 and momentum in (0, 1], got {tau} and {momentum}")
        self.weight, self.tau, self.momentum = float(weight), float(tau), float(momentum)
        self.how: Estimator = how
        self.eps = float(eps)
        self.moments: tuple[float, float] | None = None
        """Moving averages of R' and of its square; None before the first batch."""
        kl(torch.zeros(1), torch.zeros(1), how)  # an unknown one fails now

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        reward = retained(
            batch.reward, batch.need("old_logp"), batch.need("ref_logp"), batch.mask,
            weight=coef.get("retention", self.weight), tau=self.tau, how=self.how,
        )  # fmt: skip
        known = reward[~reward.isnan() & (batch.length > 0)].double().tolist()
        if known:
            # fsum: the mean must not depend on the order of trajectories
            new = [math.fsum(x**power for x in known) / len(known) for power in (1, 2)]
            old = new if self.moments is None else self.moments
            mean, square = (o + self.momentum * (n - o) for o, n in zip(old, new, strict=True))
            self.moments = mean, square
        if self.moments is None:
            return Estimate(torch.zeros_like(reward))
        mean, square = self.moments
        std = math.sqrt(max(square - mean * mean, 0.0))
        return Estimate(torch.nan_to_num((reward - mean) / (std + self.eps)))

    def state_dict(self) -> dict[str, Any]:
        return {"moments": None if self.moments is None else list(self.moments)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        found = state["moments"]
        self.moments = None if found is None else (float(found[0]), float(found[1]))
