"""Policy losses: REINFORCE, the clipped surrogate (PPO, GRPO …), decoupled PPO, GSPO, CISPO."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor

from ..ops.ratios import (
    LOG_RATIO_LIMIT,
    clipped_surrogate,
    kl,
    mean_ratio,
    scaled,
    token_ratio,
    truncated_weight,
)
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import ON_POLICY, Coef, WeightedLoss, check_clip


def reinforce_loss(
    logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "seq-mean-token-sum",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A log π``. The default aggregation is the one whose gradient is that of the mean return.

    Args:
        logp, mask: (B, T). adv: (B,) or (B, T).

    Returns:
        (loss, {}).
    """
    loss = -spread(adv, mask) * masked(logp, mask)
    return aggregate_tokens(loss, mask, aggregate, **counts), {}


class ReinforceLoss(WeightedLoss):
    """Loss -A log π."""

    registered = "reinforce"
    default: ClassVar[Aggregate] = "seq-mean-token-sum"

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return reinforce_loss(
            output.logp, batch.need("adv"), batch.mask,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


def ppo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    clip_scale: Tensor | None = None,
    dual_clip: float | None = None,
    weight: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Clipped surrogate; GRPO aggregates "seq-mean-token-mean", Dr.GRPO "seq-mean-token-sum-norm".

    Args:
        logp: (B, T) log-probabilities under the policy that is trained.
        old_logp: (B, T) the same under the policy that sampled; on-policy: ``logp.detach()``.
        adv: (B,) or (B, T) advantages.
        mask: (B, T) 1 where the policy acted.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high] (DAPO: .2, .28).
        clip_scale: (B, T) factors on both, per token; None: 1.
        dual_clip: for negative advantages the loss is at most ``-dual_clip * adv`` (> 1).
        weight: (B, T) factors on the loss per token, e.g. ``truncated_weight`` or
            ``clip_cov_weight``; detached; divisors do not change.

    Returns:
        (loss, stats): stats are the mean ratio, the fraction of clipped tokens and k3 to the old
        policy, all over unmasked tokens.
    """
    adv = spread(adv, mask)
    ratio = token_ratio(logp, old_logp, mask)
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    loss, clipped = clipped_surrogate(ratio, adv, low=low, high=high, dual=dual_clip)
    if weight is not None:
        loss = loss * spread(weight, mask)
    with torch.no_grad():
        stats = {
            "ratio": masked_mean(ratio, mask),
            "clipped": masked_mean(clipped.to(ratio.dtype), mask),
            "kl_old": masked_mean(kl(masked(old_logp, mask), masked(logp, mask), "k3"), mask),
        }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class PPOLoss(WeightedLoss):
    """The clipped surrogate; also GRPO's, Dr.GRPO's, DAPO's, RLOO's, REINFORCE++'s."""

    registered = "ppo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high", "dual_clip")
    requires = frozenset({"old_logp"})
    scales_clip = True
    reductions = ON_POLICY

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        if dual_clip is not None and dual_clip <= 1:
            raise ValueError(f"dual_clip must be greater than 1, got {dual_clip}")
        self.options: dict[str, Any] = {
            "clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip,
        }  # fmt: skip

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return ppo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_scale=batch.clip_scale, aggregate=self.aggregate,
            **self.options, **self.counts(totals),
        )  # fmt: skip


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
        options: Options of :func:`~searchgym.rl.losses.policy_gradient.ppo_loss`.

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
    reductions = (Reduction({}, {"use": "ppo"}, "on-policy"),)

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


def gspo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    clip_scale: Tensor | None = None,
    turn: Tensor | None = None,
    aggregate: Aggregate = "seq-mean-token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Clipped surrogate with the ratio ``exp(mean log ρ)`` of the sequence, or of each turn.

    All tokens of a sequence (turn) are clipped together. Ratios of means are close to 1, hence the
    narrow default clip.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        clip_scale: (B, T) factors on both; None: 1. A²TGPO's are one number per turn.
        turn: (B, T) as in ``ops.turns``; None: sequences (A²TGPO gives turns).

    Returns:
        (loss, stats): mean ratio and fraction of clipped tokens.
    """
    ratio = mean_ratio(logp, old_logp, mask, turn)
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    loss, clipped = clipped_surrogate(ratio, spread(adv, mask), low=low, high=high)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean(clipped.to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class GSPOLoss(WeightedLoss):
    """One ratio for a whole trajectory, or with ``turns`` for each turn."""

    registered = "gspo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high", "turns")
    scales_clip = True
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-mean"
    reductions = (
        Reduction(
            {"clip_low": 0.2, "clip_high": 0.2},
            {"use": "ppo", "aggregate": "seq-mean-token-mean"},
            "one token",
        ),
    )

    def __init__(
        self, clip_low: float = 3e-4, clip_high: float = 4e-4, turns: bool = False, **shared: Any
    ) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high, self.turns = float(clip_low), float(clip_high), turns

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return gspo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_low=self.clip_low, clip_high=self.clip_high, clip_scale=batch.clip_scale,
            turn=batch.turn if self.turns else None,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


def cispo_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_high: float,
    clip_low: float = 1.0,
    clip_scale: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``-A · sg(clip(ρ, 1 - clip_low, 1 + clip_high)) · log π``, sg: no gradient.

    Args:
        logp, old_logp, mask: (B, T). adv: (B,) or (B, T).
        clip_high: to be tuned (ROLL: .1); no default is known to be good.
        clip_low: 1 clips nothing from below, as in the paper (ROLL: .1).
        clip_scale: (B, T) factors on both; None: 1.

    Returns:
        (loss, stats): mean ratio and fraction of tokens whose ratio was cut.
    """
    ratio = token_ratio(logp, old_logp, mask).detach()
    low, high = scaled(clip_scale, mask, clip_low, clip_high)
    cut = ratio.clamp(*(torch.as_tensor(x, dtype=ratio.dtype) for x in (1 - low, 1 + high)))
    loss = -spread(adv, mask) * cut * masked(logp, mask)
    stats = {
        "ratio": masked_mean(ratio, mask),
        "clipped": masked_mean((cut != ratio).to(ratio.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class CISPOLoss(WeightedLoss):
    """CISPO: the ratio is clipped, the gradient is not. ``clip_high`` has no default."""

    registered = "cispo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high")
    scales_clip = True
    requires = frozenset({"old_logp"})
    reductions = tuple(r._replace(options={"clip_high": 0.2}) for r in ON_POLICY)

    def __init__(self, clip_high: float, clip_low: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high = float(clip_low), float(clip_high)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return cispo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_high=self.clip_high, clip_low=self.clip_low, clip_scale=batch.clip_scale,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip
