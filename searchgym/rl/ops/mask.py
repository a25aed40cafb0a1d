"""Zeroing what is masked, spreading what is known per trajectory, means over what is left."""

from __future__ import annotations

import torch
from torch import Tensor

from .shapes import require_tokens


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """(B, T) values, exactly 0 where the mask is 0: gradients there are 0, too, never NaN.

    Multiplying by the mask would not do: 0 · NaN is NaN, and so is its gradient.
    """
    require_tokens(values=values, mask=mask)
    return torch.where(mask > 0, values, torch.zeros_like(values))


def spread(adv: Tensor, mask: Tensor) -> Tensor:
    """(B,) or (B, T) advantages as (B, T), 0 where the mask is 0, detached."""
    if adv.ndim == 1 and mask.ndim == 2 and len(adv) == len(mask):
        adv = adv[:, None].expand(mask.shape)
    if adv.shape != mask.shape or mask.ndim != 2:
        raise ValueError(
            f"expected (B,) or (B, T) beside a (B, T) mask, got {tuple(adv.shape)} and "
            f"{tuple(mask.shape)}"
        )
    return masked(adv.detach(), mask)


def masked_mean(values: Tensor, mask: Tensor) -> float:
    """The mean over unmasked tokens as a number for the logs; 0 if there are none."""
    with torch.no_grad():
        return float(masked(values, mask).sum() / (mask > 0).sum().clamp_min(1))


def at_last_token(reward: Tensor, mask: Tensor) -> Tensor:
    """(B,) rewards as (B, T): each on its trajectory's last unmasked token, 0 elsewhere.

    A fully masked trajectory has no such token; its reward is dropped.
    """
    keep = mask > 0
    after = keep.flip(1).cumsum(1).flip(1)  # (B, T) unmasked tokens from here on
    return spread(reward, keep & (after == 1))
