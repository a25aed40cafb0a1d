"""Policy losses: REINFORCE, the clipped surrogate (PPO, GRPO …), decoupled PPO, GSPO, CISPO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

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
from ..ops.tokens import Aggregate, masked, masked_mean, spread
from ..slots.batch import Batch
from ..slots.protocols import Reduction
from .base import ON_POLICY, WeightedLoss, check_clip


class ReinforceLoss(WeightedLoss):
    """Loss -A log π. With the default aggregation its gradient is that of the mean return."""

    registered = "reinforce"
    default: ClassVar[Aggregate] = "seq-mean-token-sum"

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        return -spread(batch.adv, batch.mask) * masked(logp, batch.mask), {}


class PPOLoss(WeightedLoss):
    """The clipped surrogate; also GRPO's, Dr.GRPO's, DAPO's, RLOO's, REINFORCE++'s.

    Statistics: the mean ratio, the fraction of clipped tokens and k3 to the old policy.

    Args:
        clip_low, clip_high: The ratio is clipped to [1 - clip_low, 1 + clip_high] (DAPO: .2, .28).
        dual_clip: For negative advantages the loss is at most ``-dual_clip * adv`` (> 1).
    """

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
        self.clip_low, self.clip_high, self.dual_clip = clip_low, clip_high, dual_clip

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        mask, old = batch.mask, batch.need("old_logp")
        ratio = token_ratio(logp, old, mask)
        low, high = scaled(batch.clip_scale, mask, self.clip_low, self.clip_high)
        adv = spread(batch.adv, mask)
        loss, clipped = clipped_surrogate(ratio, adv, low=low, high=high, dual=self.dual_clip)
        with torch.no_grad():
            stats = {
                "ratio": masked_mean(ratio, mask),
                "clipped": masked_mean(clipped.to(ratio.dtype), mask),
                "kl_old": masked_mean(kl(masked(old, mask), masked(logp, mask), "k3"), mask),
            }
        return loss, stats


Action = Literal["mask", "clamp"]
Level = Literal["token", "sequence"]


class DecoupledLoss(PPOLoss):
    """PPO on tokens that older weights drew, ``-w · min(ρA, clip(ρ)A)``: ρ to the policy at the
    start of the update, w = π_old / π_sampled from the one that sampled to that, without gradient
    (Hilton et al., arXiv 2110.00641; AReaL, arXiv 2505.24298).

    Args:
        cap: Tokens (or sequences, by the product over their tokens) with a larger w are left out
            (``mask``) or count ``cap`` (``clamp``). What the sum is divided by does not change.
    """

    registered = "decoupled"
    requires = frozenset({"old_logp", "sampled_logp"})
    reductions = (Reduction({}, {"use": "ppo"}, "on-policy"),)

    def __init__(
        self, cap: float = 5.0, action: Action = "mask", level: Level = "token", **shared: Any
    ) -> None:
        super().__init__(**shared)
        limit = math.inf if action == "clamp" else math.exp(LOG_RATIO_LIMIT)
        if not 0 < cap < limit or action not in get_args(Action) or level not in get_args(Level):
            raise ValueError(
                f"cap is positive and below e^{LOG_RATIO_LIMIT:g}, action 'mask' or 'clamp', level "
                f"'token' or 'sequence'; got {cap}, {action!r}, {level!r}"
            )
        self.cap, self.action, self.level = float(cap), action, level

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        loss, stats = super().by_token(logp, batch)
        old, sampled, mask = batch.need("old_logp"), batch.sampled_logp, batch.mask
        most = self.cap
        if self.action == "mask":
            most = float(torch.tensor(LOG_RATIO_LIMIT).exp())
        weight = truncated_weight(old, sampled, mask, cap=most, level=self.level)
        if self.action == "mask":
            weight = torch.where(weight <= self.cap, weight, torch.zeros_like(weight))
        beyond = (weight == 0) if self.action == "mask" else (weight >= self.cap)
        stats["behaviour_weight"] = masked_mean(weight, mask)
        stats["capped"] = masked_mean(beyond.to(weight.dtype), mask)
        return loss * weight, stats


class GSPOLoss(WeightedLoss):
    """Clipped surrogate with the ratio ``exp(mean log ρ)`` of a whole trajectory, or with ``turns``
    of each turn, all tokens of which are clipped together. Ratios of means are close to 1, hence
    the narrow default clip. Statistics: the mean ratio and the fraction of clipped tokens."""

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

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask, turn = batch.mask, batch.turn if self.turns else None
        ratio = mean_ratio(logp, batch.need("old_logp"), mask, turn)
        low, high = scaled(batch.clip_scale, mask, self.clip_low, self.clip_high)
        loss, clipped = clipped_surrogate(ratio, spread(batch.adv, mask), low=low, high=high)
        return loss, {
            "ratio": masked_mean(ratio, mask),
            "clipped": masked_mean(clipped.to(ratio.dtype), mask),
        }


class CISPOLoss(WeightedLoss):
    """``-A · sg(clip(ρ, 1 - clip_low, 1 + clip_high)) · log π``, sg: no gradient. Statistics: the
    mean ratio and the fraction of tokens whose ratio was cut.

    Args:
        clip_high: To be tuned (ROLL: .1); no default is known to be good.
        clip_low: 1 clips nothing from below, as in the paper (ROLL: .1).
    """

    registered = "cispo"
    off_policy: ClassVar[tuple[str, ...]] = ("clip_low", "clip_high")
    scales_clip = True
    requires = frozenset({"old_logp"})
    reductions = tuple(r._replace(options={"clip_high": 0.2}) for r in ON_POLICY)

    def __init__(self, clip_high: float, clip_low: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high = float(clip_low), float(clip_high)

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask = batch.mask
        ratio = token_ratio(logp, batch.need("old_logp"), mask).detach()
        low, high = scaled(batch.clip_scale, mask, self.clip_low, self.clip_high)
        cut = ratio.clamp(*(torch.as_tensor(x, dtype=ratio.dtype) for x in (1 - low, 1 + high)))
        return -spread(batch.adv, mask) * cut * masked(logp, mask), {
            "ratio": masked_mean(ratio, mask),
            "clipped": masked_mean((cut != ratio).to(ratio.dtype), mask),
        }
