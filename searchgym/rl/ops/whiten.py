"""Mean 0 and variance 1 over the unmasked tokens of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked


def moments(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sample variance (divided by n - 1) over unmasked tokens; both 0-D.

    Both are 0 without tokens, the variance also with one.
    """
    keep = mask > 0
    count = keep.sum()
    mean = masked(values, mask).sum() / count.clamp_min(1)
    squares = masked(values - mean, mask).square().sum()
    return mean, squares / (count - 1).clamp_min(1)


def whiten(
    values: Tensor,
    mask: Tensor,
    *,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    eps: float = 1e-8,
) -> Tensor:
    """(B, T) (x - mean) / sqrt(var + ``eps``), 0 where masked.

    Values that are all equal become exactly 0. ``mean`` and ``var`` replace the batch's own: give
    the global batch's when this is a part of it (both or neither).
    """
    if (mean is None) != (var is None):
        raise ValueError("give both mean and var, or neither")
    if mean is None or var is None:
        mean, var = moments(values, mask)
        known = values[mask > 0]
        if known.numel() == 0 or bool((known == known[0]).all()):
            return torch.zeros_like(values)
    return masked((values - mean) / (var + eps).sqrt(), mask)
