"""REINFORCE: the plain policy gradient, without ratio or clip. Also GPG's, RLOO's, ReMax's."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.mask import masked, spread


def reinforce_loss(
    logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "seq-mean-token-sum",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A log π``. The default aggregation is the one whose gradient is that of the mean return.

    Args:
        logp, mask: (B, T). adv: (B,) or (B, T).

    Returns:
        (loss, {}).
    """
    loss = -spread(adv, mask) * masked(logp, mask)
    return aggregate_tokens(loss, mask, aggregate, **counts), {}
