"""PPO on stale tokens: the policy that sampled is not the one that the ratio is clipped around."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..ops.ratios import LOG_RATIO_LIMIT, truncated_weight
from ..ops.tokens import masked_mean
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import Coef
from .ppo import PPOLoss, ppo_loss

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
        options: Options of :func:`~searchgym.rl.losses.ppo.ppo_loss`.

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


class DecoupledLoss(PPOLoss):
    """PPO on tokens that older weights drew: weighted by how likely they are by now."""

    registered = "decoupled"
    requires = frozenset({"old_logp", "sampled_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({}, {"use": "ppo"}, "on-policy"),)

    def __init__(
        self, cap: float = 5.0, action: Action = "mask", level: Level = "token", **shared: Any
    ) -> None:
        super().__init__(**shared)
        if (
            not 0 < cap < math.inf
            or action not in ("mask", "clamp")
            or level not in ("token", "sequence")
        ):
            raise ValueError(
                "cap is positive, action 'mask' or 'clamp', level 'token' or 'sequence'; got "
                f"{cap}, {action!r}, {level!r}"
            )
        self.options |= {"cap": float(cap), "action": action, "level": level}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return decoupled_loss(
            output.logp, batch.need("old_logp"), batch.sampled_logp, batch.need("adv"), batch.mask,
            clip_scale=batch.clip_scale, aggregate=self.aggregate,
            **self.options, **self.counts(totals),
        )  # fmt: skip
