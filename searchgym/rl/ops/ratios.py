"""Importance ratios, the clipped surrogate and KL estimators."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .tokens import masked
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


Estimator = Literal["k1", "k2", "k3", "k3+", "abs"]


def kl(logp: Tensor, ref_logp: Tensor, how: Estimator = "k3") -> Tensor:
    """KL estimates per token, same shape as both (Schulman 2020, "Approximating KL Divergence").

    With d = logp - ref_logp: ``k1`` = d, unbiased, for rewards; ``k2`` = d²/2, whose *gradient* is
    that of the KL, for losses; ``k3`` = exp(-d) + d - 1, unbiased and never negative, with |d|
    clamped to 20 and the value to 10; ``k3+`` has k3's value and k2's gradient; ``abs`` = |d|.
    k3's own gradient is not that of the KL.
    """
    if logp.shape != ref_logp.shape:
        raise ValueError(
            f"expected equal shapes, got logp {tuple(logp.shape)}, ref_logp {tuple(ref_logp.shape)}"
        )
    d = logp - ref_logp
    if how == "k1":
        return d
    if how == "abs":
        return d.abs()
    k2 = d.square() / 2
    if how == "k2":
        return k2
    d = d.clamp(-20, 20)
    k3 = ((-d).exp() + d - 1).clamp(-10, 10)
    if how == "k3":
        return k3
    if how == "k3+":
        return k3.detach() + k2 - k2.detach()
    raise ValueError(f"unknown KL estimator {how!r}; known: k1, k2, k3, k3+, abs")


def adapted_kl_coefficient(
    coefficient: float, measured: float, samples: int, *, target: float = 0.1, horizon: int = 10_000
) -> float:
    """The coefficient after ``samples`` more samples whose mean KL was ``measured``.

    Grows while the KL is above ``target``, shrinks while it is below, by at most 20 % per
    ``horizon`` samples (Ziegler et al., arXiv 1909.08593).
    """
    if target <= 0 or horizon <= 0:
        raise ValueError(f"expected target > 0 and horizon > 0, got {target} and {horizon}")
    error = min(max(measured / target - 1, -0.2), 0.2)
    return coefficient * (1 + error * samples / horizon)
