"""The KL to a reference policy as a term of the loss (GRPO: β · k3)."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.kl import Estimator, kl
from ..kernels.mask import masked, masked_mean, spread


def kl_loss(
    logp: Tensor,
    ref_logp: Tensor,
    mask: Tensor,
    how: Estimator = "k3",
    *,
    weight: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``kernels.kl`` per token, aggregated as the policy loss is; multiply by β yourself.

    Args:
        logp, ref_logp, mask: (B, T). The reference is detached.
        how: "k1" is for rewards: as a loss its gradient is 0 in expectation.
        weight: (B, T) factors, e.g. ``kl_cov_tokens``; divisors do not change.

    Returns:
        (loss, stats): the mean estimate over unmasked tokens, unweighted.
    """
    value = kl(masked(logp, mask), masked(ref_logp, mask).detach(), how)
    stats = {"kl": masked_mean(value, mask)}
    if weight is not None:
        value = value * spread(weight, mask)
    return aggregate_tokens(value, mask, aggregate, **counts), stats
