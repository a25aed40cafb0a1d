"""The clipped surrogate of PPO, per token, with the second clip for negative advantages."""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked


def scaled(
    scale: Tensor | None, mask: Tensor, low: float, high: float
) -> tuple[float | Tensor, float | Tensor]:
    """A clip range, times factors (B, T) where there are some."""
    if scale is None:
        return low, high
    scale = masked(scale.detach(), mask)
    return low * scale, high * scale


def clipped_surrogate(
    ratio: Tensor,
    adv: Tensor,
    *,
    low: float | Tensor = 0.2,
    high: float | Tensor = 0.2,
    dual: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Loss per token and which tokens are clipped (their gradient is 0).

    ``max(-A ρ, -A clip(ρ, 1 - low, 1 + high))`` (arXiv 1707.06347); with ``dual`` = c > 1 and A < 0
    at most ``-c A`` (dual clip, arXiv 1912.09729).

    Args:
        ratio, adv: any equal shape.
        low, high: numbers, or tensors of that shape.

    Returns:
        (loss, clipped): shapes as ``ratio``; clipped is bool.
    """
    if ratio.shape != adv.shape:
        raise ValueError(
            f"expected equal shapes, got ratio {tuple(ratio.shape)}, adv {tuple(adv.shape)}"
        )
    if dual is not None and dual <= 1:
        raise ValueError(f"dual_clip must be greater than 1, got {dual}")
    plain = -adv * ratio
    lower = torch.as_tensor(1 - low, dtype=ratio.dtype, device=ratio.device)
    upper = torch.as_tensor(1 + high, dtype=ratio.dtype, device=ratio.device)
    limited = -adv * ratio.clamp(lower, upper)
    loss, clipped = torch.maximum(plain, limited), limited > plain
    if dual is not None:
        most = -dual * adv
        clipped = clipped | ((adv < 0) & (loss > most))
        loss = torch.where(adv < 0, torch.minimum(loss, most), loss)
    return loss, clipped
