"""The forward KL from a reward-weighted reference (RAPO, arXiv 2510.03865)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor

from searchgym.rl import (
    Batch,
    Coef,
    Output,
    Reduction,
    Result,
    Totals,
    WeightedLoss,
    check_positive,
)
from searchgym.rl.ops import Aggregate, Counts, aggregate_tokens, masked, masked_mean, spread


def forward_kl_loss(
    logp: Tensor,
    ref_logp: Tensor,
    mask: Tensor,
    *,
    weight: Tensor | None = None,
    cap: float = 10.0,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-(f w - 1) log π`` with w = π_ref / π of the policy's own tokens, detached.

    Its gradient is, in expectation over the next token, that of the forward KL(π_ref || π), and for
    factors f that of the cross-entropy from the reference times f. The ``- 1``, whose expectation
    is 0, makes it exactly 0 where both are equal. k3's gradient is the same.

    Args:
        logp, ref_logp, mask: (B, T).
        weight: (B,) f of each trajectory; None: 1.
        cap: Largest w.

    Returns:
        (loss, stats): the loss's gradient is what counts; ``kl`` is the mean of w log w - w + 1,
        an estimate of the forward KL that is never negative.
    """
    move = (masked(ref_logp, mask) - masked(logp, mask)).detach()
    ratio = move.exp().clamp_max(cap)
    factor = ratio if weight is None else ratio * spread(weight, mask)
    loss = -(factor - 1) * masked(logp, mask)
    stats = {"kl": masked_mean(ratio * move - ratio + 1, mask)}
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class ForwardKL(WeightedLoss):
    """Forward KL to the reference, each trajectory's share times f(R) = exp(R / ``tau``) by the
    update's mean of it: the policy must cover what the reference does and what earned more.

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

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return forward_kl_loss(
            output.logp, batch.need("ref_logp"), batch.mask,
            weight=batch.note("reference_weight"), cap=self.cap, aggregate=self.aggregate,
            **self.counts(totals),
        )  # fmt: skip
