"""Operations on one number a token: checks of shapes, masks, aggregation of losses, whitening."""

from __future__ import annotations

from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor


def require_rows(**tensors: Tensor) -> None:
    """``ValueError`` unless all are (B,), with one B."""
    _require("(B,)", 1, tensors)


def require_tokens(**tensors: Tensor) -> None:
    """``ValueError`` unless all are (B, T), with one B and one T."""
    _require("(B, T)", 2, tensors)


def require_batch(mask: Tensor, **rows: Tensor) -> None:
    """``ValueError`` unless the mask is (B, T) and all others are (B,), with one B."""
    for name, tensor in rows.items():
        if mask.ndim != 2 or tuple(tensor.shape) != (len(mask),):
            raise ValueError(
                f"expected {name} (B,) beside a (B, T) mask, got {name} {tuple(tensor.shape)} and "
                f"mask {tuple(mask.shape)}"
            )


def _require(expected: str, dims: int, tensors: dict[str, Tensor]) -> None:
    shapes = {tuple(t.shape) for t in tensors.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != dims:
        got = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
        raise ValueError(f"expected equal shapes {expected}, got {got}")


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


Aggregate = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]


class Counts(TypedDict, total=False):
    """Counts that every loss passes to :func:`aggregate_tokens`, which documents them."""

    norm: float | None
    tokens: float | None
    sequences: float | None


def aggregate_tokens(
    values: Tensor,
    mask: Tensor,
    how: Aggregate,
    *,
    norm: float | None = None,
    tokens: float | None = None,
    sequences: float | None = None,
) -> Tensor:
    """One number from (B, T) values under a (B, T) mask of 0 and 1.

    * ``token-mean``: sum over all tokens / number of tokens (DAPO)
    * ``seq-mean-token-mean``: mean over sequences of each one's mean (GRPO)
    * ``seq-mean-token-sum``: mean over sequences of each one's sum (REINFORCE)
    * ``seq-mean-token-sum-norm``: sum over all tokens / ``norm``, a constant, default T (Dr.GRPO;
      for a mean over sequences give sequences × the longest length allowed)

    Sequences without any unmasked token do not count. ``tokens`` and ``sequences`` replace the
    batch's own counts: give the global ones when a batch is split, then the parts' losses add up to
    the whole's.

    Raises:
        ValueError: shapes differ, an unknown ``how``, or a divisor that is not positive.
    """
    for name, count in (("norm", norm), ("tokens", tokens), ("sequences", sequences)):
        if count is not None and not count > 0:
            raise ValueError(f"{name} divides a loss and must be positive, got {count}")
    values = masked(values, mask)
    mask = mask.to(values.dtype)
    length = mask.sum(1)
    alive = float((length > 0).sum()) if sequences is None else sequences
    alive = max(alive, 1.0)
    sums = values.sum(1)
    if how == "token-mean":
        total = float(length.sum()) if tokens is None else tokens
        return sums.sum() / max(total, 1.0)
    if how == "seq-mean-token-mean":
        return (sums / length.clamp_min(1)).sum() / alive
    if how == "seq-mean-token-sum":
        return sums.sum() / alive
    if how == "seq-mean-token-sum-norm":
        return sums.sum() / (values.shape[1] if norm is None else norm)
    raise ValueError(f"unknown aggregation {how!r}; known: {', '.join(get_args(Aggregate))}")


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
