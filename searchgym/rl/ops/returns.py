"""Sums of what comes later, carried *through* masked tokens.

A return that is multiplied by the mask at every step is reset by each search result, so that all
turns before the last one earn nothing (seen in released code). Here masked tokens are stepped over:
they add nothing, reset nothing, and are not discounted for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked


def sum_of_later(values: Tensor, mask: Tensor, decay: float | Tensor) -> Tensor:
    """(B, T) y_t = x_t + decay_t · y_{t'} with t' the next unmasked token; 0 where masked.

    ``decay`` is a number or (B, T); where it is 0, the sum starts anew.

    Raises:
        ValueError: shapes differ, or an unmasked value is NaN or infinite: it would spread over
            all tokens before it, and by whitening over the batch.
    """
    values = masked(values, mask)
    if not bool(torch.isfinite(values).all()):
        raise ValueError(
            "a reward or value at an unmasked token is not finite; mask out trajectories that "
            "cannot be scored"
        )
    keep = mask > 0
    factor = torch.as_tensor(decay, dtype=values.dtype, device=values.device).expand_as(values)
    carry = torch.zeros_like(values[:, 0]) if values.shape[1] else values.sum(1)
    columns: list[Tensor] = []
    for t in range(values.shape[1] - 1, -1, -1):
        carry = torch.where(keep[:, t], values[:, t] + factor[:, t] * carry, carry)
        columns.append(carry)
    if not columns:
        return values
    return masked(torch.stack(columns[::-1], 1), mask)


def reward_to_go(reward: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """(B, T) the discounted sum of the rewards (B, T) from each unmasked token on."""
    return sum_of_later(reward.detach(), mask, gamma)
