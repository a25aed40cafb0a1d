"""The forward KL from a reward-weighted reference (RAPO, arXiv 2510.03865)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Output, Reduction, WeightedLoss, check_positive
from searchgym.rl.ops import masked, masked_mean, spread


class ForwardKL(WeightedLoss):
    """Forward KL to the reference, each trajectory's share times f(R) = exp(R / ``tau``) by the
    update's mean of it: the policy must cover what the reference does and what earned more.

    ``-(f w - 1) log π`` with w = π_ref / π of the policy's own tokens, detached. Its gradient is,
    in expectation over the next token, that of the forward KL(π_ref || π), and for factors f that
    of the cross-entropy from the reference times f. The ``- 1``, whose expectation is 0, makes it
    exactly 0 where both are equal. k3's gradient is the same. The statistic ``kl`` is the mean of
    w log w - w + 1, an estimate of the forward KL that is never negative.

    Args:
        weight: β.
        tau: Temperature of the rewards; None: f = 1, the plain forward KL.
        cap: Largest ratio π_ref / π.
    """

    registered = "loss:forward_kl"
    name = "kl"
    requires = frozenset({"ref_logp"})
    reductions = (
        Reduction({"tau": None, "weight": 1.0}, {"use": "kl", "how": "k3", "weight": 1.0}),
    )

    def __init__(
        self, weight: float = 0.001, tau: float | None = 1.0, cap: float = 10.0, **shared: Any
    ) -> None:
        super().__init__(weight, **shared)
        check_positive(cap=cap, **({} if tau is None else {"tau": tau}))
        self.tau, self.cap = tau, float(cap)

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """Note f(R) of each trajectory; 1 for those that cannot be scored."""
        factor = torch.ones(len(batch))
        known = ~batch.reward.isnan()
        if self.tau is not None and bool(known.any()):
            raised = batch.reward[known].float() / self.tau
            raised = raised - torch.logsumexp(raised, 0) + math.log(len(raised))
            factor[known] = raised.exp()
        return {"reference_weight": factor}

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask = batch.mask
        move = (masked(batch.need("ref_logp"), mask) - masked(logp, mask)).detach()
        ratio = move.exp().clamp_max(self.cap)
        factor = ratio * spread(batch.note("reference_weight"), mask)
        stats = {"kl": masked_mean(ratio * move - ratio + 1, mask)}
        return -(factor - 1) * masked(logp, mask), stats
