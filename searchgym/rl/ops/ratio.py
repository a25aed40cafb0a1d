"""Importance ratios between two policies: of each token, each turn, each whole sequence."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .mask import masked
from .turns import over_turn

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to ± this before ``exp``: no infinite loss, and no gradient out there."""


def log_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    """(B, T) logp - old_logp, 0 where masked; ``old_logp`` is detached."""
    return masked(logp, mask) - masked(old_logp, mask).detach()


def token_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    """(B, T) each token's own ratio; 1 where masked."""
    return log_ratio(logp, old_logp, mask).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def mean_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor, turn: Tensor | None = None) -> Tensor:
    """(B, T) the geometric mean of the ratios of a sequence, or of each of its turns.

    All tokens of one share the value; each token's gradient flows through its own ``logp`` alone
    (GSPO-token, arXiv 2507.18071), which makes per-token advantages possible and, where advantages
    are equal, is the sequence form's gradient.

    Args:
        turn: (B, T) integers as for ``turns``; None: the whole sequence is one.
    """
    ratio = log_ratio(logp, old_logp, mask)
    turn = torch.zeros_like(mask, dtype=torch.long) if turn is None else turn
    fixed = ratio.detach()
    count = over_turn(torch.ones_like(fixed), turn, mask).clamp_min(1)
    mean = over_turn(fixed, turn, mask) / count
    return (mean + ratio - fixed).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def truncated_weight(
    logp: Tensor,
    sampled_logp: Tensor,
    mask: Tensor,
    *,
    cap: float = 2.0,
    level: Literal["token", "sequence"] = "token",
) -> Tensor:
    """(B, T) min(ratio, ``cap``), detached, 0 where masked: truncated importance sampling (TIS).

    Corrects for sampling by another policy than the one that the loss calls old (an inference
    server's numerics, stale weights): multiply the loss per token by it. A sequence's ratio is the
    product of its tokens'.
    """
    if cap <= 0:
        raise ValueError(f"cap must be positive, got {cap}")
    difference = log_ratio(logp, sampled_logp, mask).detach()
    if level == "sequence":
        difference = difference.sum(1, keepdim=True).expand_as(difference)
    elif level != "token":
        raise ValueError(f"unknown level {level!r}; known: token, sequence")
    weight = difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp().clamp_max(cap)
    return masked(weight, mask)
