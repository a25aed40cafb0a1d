"""Leaving out the tokens whose probability has moved most, until the rest has moved little."""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked
from .ratio import log_ratio


def second_moment_keep(
    logp: Tensor, sampled_logp: Tensor, mask: Tensor, among: Tensor, *, tau: float
) -> Tensor:
    """(B, T) bool, the unmasked tokens that are kept.

    Of the tokens of ``among``, those with the largest ``(log π - log π_sampled)²`` are left out, by
    rank, until the mean over those of ``among`` that are left is at most ``tau``. All others are
    kept. Of equal ones at the limit all go.

    Args:
        logp, sampled_logp, mask: (B, T).
        among: (B, T) bool, tokens that may be left out.
        tau: Positive.
    """
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    inside = mask > 0
    eligible = inside & among
    moved = log_ratio(logp, sampled_logp, mask).detach() ** 2
    ranked = moved[eligible].double().sort().values
    counts = torch.arange(1, len(ranked) + 1, device=ranked.device)
    within = (ranked.cumsum(0) / counts) <= tau  # true, then false: means of a sorted list grow
    kept = int(within.sum())
    if kept == len(ranked):
        return inside
    return inside & ~(eligible & (masked(moved, mask).double() >= ranked[kept]))
