"""Distillation on-policy: a teacher scores the student's tokens; the log-ratio is the signal."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ..ops.ratios import kl
from ..ops.tokens import masked, spread
from ..ops.turns import reward_to_go
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Coef, Reduction
from .base import Over


def distillation_advantages(
    logp: Tensor,
    teacher_logp: Tensor,
    mask: Tensor,
    *,
    coef: float = 1.0,
    adv: Tensor | None = None,
    gate: Tensor | None = None,
    to_go: bool = False,
) -> Tensor:
    """(B, T) ``adv - coef · (logp - teacher_logp)``, of each token or ``to_go``.

    Alone and token by token, the expected gradient of ``-A log π`` is that of the KL(S || T) of
    each next token at the states the student visits, with the visits held fixed. With ``to_go`` a
    token answers for the sum from itself on, and the gradient is that of KL(S || T) of whole texts.

    Several teachers: call it once per teacher, each with its own ``gate``, handing ``adv`` on.
    Group normalisation comes before, whitening after.

    Args:
        logp, teacher_logp, mask: (B, T); ``logp`` is the student's, as sampled.
        adv: (B,) or (B, T) advantages to add to; None: none.
        gate: (B,) bool, the trajectories this teacher speaks on (HyperEyes: the failed ones;
            KEPO: the rewarded ones); None: all.
        to_go: Sum the differences over all later tokens, too: exact, at a higher variance.
    """
    signal = -coef * kl(masked(logp, mask), masked(teacher_logp, mask), "k1").detach()
    if to_go:
        signal = reward_to_go(signal, mask)
    if gate is not None:
        signal = torch.where(spread(gate, mask), signal, torch.zeros_like(signal))
    return signal if adv is None else spread(adv, mask) + signal


class Distillation(Over):
    """``- weight · (log π - log teacher)`` of each sampled token.

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
        made = distillation_advantages(
            batch.need("old_logp"),
            batch.need("teacher_logp"),
            batch.mask & ~batch.reward.isnan()[:, None],
            coef=coef.get("distillation", self.weight),
            adv=None if self.alone else base.adv,
            gate=speaks,
            to_go=self.to_go,
        )
        return base._replace(adv=made)
