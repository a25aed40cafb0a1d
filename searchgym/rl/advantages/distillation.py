"""On-policy distillation: a teacher scores the student's own tokens; its dissent is the signal."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.kl import kl
from ..kernels.mask import masked, spread


def distillation_advantages(
    logp: Tensor,
    teacher_logp: Tensor,
    mask: Tensor,
    *,
    coef: float = 1.0,
    adv: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """(B, T) ``adv - coef · (logp - teacher_logp)``; alone, its gradient is that of -KL(S || T).

    Several teachers: call it once per teacher, each with its own ``gate``, handing ``adv`` on.
    Group normalisation comes before, whitening after.

    Args:
        logp, teacher_logp, mask: (B, T); ``logp`` is the student's, as sampled.
        adv: (B,) or (B, T) advantages to add to; None: none.
        gate: (B,) bool, the trajectories this teacher speaks on (HyperEyes: the failed ones;
            KEPO: the rewarded ones); None: all.
    """
    signal = -coef * kl(masked(logp, mask), masked(teacher_logp, mask), "k1").detach()
    if gate is not None:
        signal = torch.where(spread(gate, mask), signal, torch.zeros_like(signal))
    return signal if adv is None else spread(adv, mask) + signal
