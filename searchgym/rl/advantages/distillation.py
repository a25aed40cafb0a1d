"""Distillation on-policy: a teacher scores the student's tokens; the log-ratio is the signal."""

from __future__ import annotations

from typing import Any, Literal

import torch

from ..ops.ratios import kl
from ..ops.tokens import masked, spread
from ..ops.turns import reward_to_go
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Coef, Reduction
from .base import Over


class Distillation(Over):
    """``- weight · (log π - log teacher)`` of each sampled token.

    Alone and token by token, the expected gradient of ``-A log π`` is that of the KL(S || T) of
    each next token at the states the student visits, with the visits held fixed. With ``to_go`` a
    token answers for the sum from itself on, and the gradient is that of KL(S || T) of whole texts,
    exact at a higher variance.

    Args:
        weight: Or ``coef["distillation"]``.
        base: Another estimator, as in a recipe, whose advantages this is added to.
        gate: Trajectories on which the teacher speaks: all, those that ``failed`` (HyperEyes) or
            those that ``succeeded`` (KEPO), by reward ≥ ``threshold``.
        to_go: True if a token is credited with later tokens' differences, too.
    """

    registered = "distillation"
    reads = frozenset({"distillation"})
    needs = frozenset({"old_logp", "teacher_logp"})
    reductions = (Reduction({"weight": 0.0, "base": "grpo"}, {"use": "grpo"}),)

    def __init__(
        self,
        weight: float = 1.0,
        base: Any = None,
        gate: Literal["all", "failed", "succeeded"] = "all",
        threshold: float = 0.5,
        to_go: bool = False,
    ) -> None:
        if gate not in ("all", "failed", "succeeded"):
            raise ValueError(f"gate is 'all', 'failed' or 'succeeded', got {gate!r}")
        self.weight, self.gate, self.threshold = float(weight), gate, float(threshold)
        self.to_go = to_go
        super().__init__("ones" if base is None else base)
        self.alone = base is None

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        base = Estimate(torch.zeros(())) if self.alone else self.base.estimate(batch, coef)
        succeeded = batch.reward >= self.threshold
        speaks = torch.ones_like(succeeded)
        if self.gate != "all":
            speaks = succeeded if self.gate == "succeeded" else ~succeeded
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        logp, teacher = (masked(batch.need(n), mask) for n in ("old_logp", "teacher_logp"))
        signal = -coef.get("distillation", self.weight) * kl(logp, teacher, "k1").detach()
        if self.to_go:
            signal = reward_to_go(signal, mask)
        signal = torch.where(spread(speaks, mask), signal, torch.zeros_like(signal))
        return base._replace(adv=signal if self.alone else spread(base.adv, mask) + signal)
