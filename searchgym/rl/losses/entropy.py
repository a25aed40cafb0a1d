"""An entropy bonus: keeps a policy from settling too early."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ..kernels.aggregate import Aggregate, Counts, aggregate_tokens
from ..kernels.mask import masked, masked_mean


def token_entropy(logits: Tensor) -> Tensor:
    """(B, T) entropies in nats of (B, T, V) logits; a logit of -inf is a token of probability 0."""
    logp = logits.log_softmax(-1)
    finite = torch.where(logp > -torch.inf, logp, torch.zeros_like(logp))
    return -(logp.exp() * finite).sum(-1)


def entropy_loss(
    entropy: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """*Minus* the aggregated entropy (B, T): add it to the loss with a small positive coefficient.

    Returns:
        (loss, stats): the mean entropy over unmasked tokens.
    """
    stats = {"entropy": masked_mean(entropy, mask)}
    return -aggregate_tokens(masked(entropy, mask), mask, aggregate, **counts), stats
