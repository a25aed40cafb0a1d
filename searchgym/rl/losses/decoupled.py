"""PPO on stale tokens: the policy that sampled is not the one that the ratio is clipped around."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ..kernels.mask import masked, masked_mean
from ..kernels.ratio import LOG_RATIO_LIMIT, log_ratio, truncated_weight
from .ppo import ppo_loss

Action = Literal["mask", "clamp"]
Level = Literal["token", "sequence"]


def decoupled_loss(
    logp: Tensor,
    old_logp: Tensor,
    sampled_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    cap: float = 5.0,
    action: Action = "mask",
    level: Level = "token",
    **options: Any,
) -> tuple[Tensor, dict[str, float]]:
    """Decoupled PPO (Hilton et al., arXiv 2110.00641; AReaL, arXiv 2505.24298):
    ``-w · min(ρA, clip(ρ)A)``, ρ to the policy at the start of the update, w from the one that
    sampled to that.

    Args:
        logp: (B, T) under the policy that is trained.
        old_logp: (B, T) under the weights at the start of the update ("proximal").
        sampled_logp: (B, T) under the weights that drew each token ("behaviour").
        adv: (B,) or (B, T). mask: (B, T).
        cap: Tokens (or sequences, by the product over their tokens) with a larger w are left out
            (``mask``) or count ``cap`` (``clamp``). What the sum is divided by does not change.
        options: Of :func:`~searchgym.rl.losses.ppo.ppo_loss`.

    Returns:
        (loss, stats): those of ``ppo_loss``, the mean w and the share of tokens above the cap.
    """
    weight = behaviour_weight(old_logp, sampled_logp, mask, cap=cap, action=action, level=level)
    loss, stats = ppo_loss(logp, old_logp, adv, mask, weight=weight, **options)
    beyond = (weight == 0) if action == "mask" else (weight >= cap)
    with torch.no_grad():
        stats["behaviour_weight"] = masked_mean(weight, mask)
        stats["capped"] = masked_mean(beyond.to(weight.dtype), mask)
    return loss, stats


def behaviour_weight(
    old_logp: Tensor,
    sampled_logp: Tensor,
    mask: Tensor,
    *,
    cap: float = 5.0,
    action: Action = "mask",
    level: Level = "token",
) -> Tensor:
    """(B, T) w = π_old / π_sampled, detached, 0 where masked."""
    if action == "clamp":
        return truncated_weight(old_logp, sampled_logp, mask, cap=cap, level=level)
    if action != "mask":
        raise ValueError(f"unknown action {action!r}; known: mask, clamp")
    limit = float(torch.tensor(LOG_RATIO_LIMIT).exp())
    if not 0 < cap < limit:
        raise ValueError(f"cap must be positive and below e^{LOG_RATIO_LIMIT:g}, got {cap}")
    whole = truncated_weight(old_logp, sampled_logp, mask, cap=limit, level=level)
    return torch.where(whole <= cap, whole, torch.zeros_like(whole))


def m2po_keep(old_logp: Tensor, sampled_logp: Tensor, mask: Tensor, *, tau: float = 0.04) -> Tensor:
    """M2PO (arXiv 2510.01161): (B, T) bool, the unmasked tokens that may learn. Those that moved
    most since they were drawn are left out, by rank, until the mean of ``(log w)²`` over the rest
    is at most ``tau``."""
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    moved = log_ratio(old_logp, sampled_logp, mask).detach() ** 2
    inside = mask > 0
    ranked = moved[inside].double().sort().values
    counts = torch.arange(1, len(ranked) + 1, device=ranked.device)
    within = (ranked.cumsum(0) / counts) <= tau  # true, then false: means of a sorted list grow
    kept = int(within.sum())
    if kept == len(ranked):
        return inside
    limit = ranked[kept]  # the first that is too much; all equal to it go, whatever their order
    return inside & (masked(moved, mask).double() < limit)
