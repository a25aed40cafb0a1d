"""Policy losses. Options are those of the functions in ``rl.losses``; see there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ..kernels.aggregate import Aggregate
from ..losses.cispo import cispo_loss
from ..losses.decoupled import Action, Level, decoupled_loss
from ..losses.gspo import gspo_loss
from ..losses.kimi import kimi_loss
from ..losses.opmd import opmd_loss
from ..losses.ppo import ppo_loss
from ..losses.reinforce import reinforce_loss
from ..losses.sapo import sapo_loss
from ..losses.truncated import tis_loss
from ..slots.batch import Batch, Mean, Output, Totals
from ..slots.protocols import Reduction, Result
from .base import Objective

Coef = Mapping[str, float]
_ON_POLICY = (Reduction({}, {"use": "reinforce", "aggregate": "token-mean"}, "on-policy"),)


def _check_clip(low: float, high: float) -> None:
    if not 0 <= low <= 1 or not 0 <= high < math.inf:
        raise ValueError(f"0 ≤ clip_low ≤ 1 and clip_high ≥ 0, got {low}, {high}")


def _check_positive(**options: float) -> None:
    for name, value in options.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}")


class Reinforce(Objective):
    """-A log π."""

    default: ClassVar[Aggregate] = "seq-mean-token-sum"

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return reinforce_loss(
            output.logp, batch.need("adv"), batch.mask,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class PPO(Objective):
    """The clipped surrogate; also GRPO's, Dr.GRPO's, DAPO's, RLOO's, REINFORCE++'s."""

    requires = frozenset({"old_logp"})
    scales_clip = True
    reductions: ClassVar[tuple[Reduction, ...]] = _ON_POLICY

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        _check_clip(clip_low, clip_high)
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


class Decoupled(PPO):
    """PPO on tokens that older weights drew: weighted by how likely they are by now."""

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


class GSPO(Objective):
    """One ratio for a whole trajectory, or with ``turns`` for each turn."""

    scales_clip = True
    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-mean"
    reductions: ClassVar[tuple[Reduction, ...]] = (
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
        _check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high, self.turns = float(clip_low), float(clip_high), turns

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return gspo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_low=self.clip_low, clip_high=self.clip_high, clip_scale=batch.clip_scale,
            turn=batch.turn if self.turns else None,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class CISPO(Objective):
    """The ratio is clipped, the gradient is not. ``clip_high`` has no default."""

    scales_clip = True
    requires = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = tuple(
        r._replace(options={"clip_high": 0.2}) for r in _ON_POLICY
    )

    def __init__(self, clip_high: float, clip_low: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        _check_clip(clip_low, clip_high)
        self.clip_low, self.clip_high = float(clip_low), float(clip_high)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return cispo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            clip_high=self.clip_high, clip_low=self.clip_low, clip_scale=batch.clip_scale,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class SAPO(Objective):
    """A soft gate on the ratio."""

    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-mean"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"aggregate": "token-mean"}, _ON_POLICY[0].to, "on-policy"),
    )

    def __init__(
        self, tau_positive: float = 1.0, tau_negative: float = 1.05, **shared: Any
    ) -> None:
        super().__init__(**shared)
        _check_positive(tau_positive=tau_positive, tau_negative=tau_negative)
        self.options = {"tau_positive": tau_positive, "tau_negative": tau_negative}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return sapo_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            aggregate=self.aggregate, **self.options, **self.counts(totals),
        )  # fmt: skip


class TIS(Objective):
    """Truncated importance sampling."""

    requires = frozenset({"old_logp"})
    reductions: ClassVar[tuple[Reduction, ...]] = _ON_POLICY

    def __init__(self, cap: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        _check_positive(cap=cap)
        self.cap = float(cap)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return tis_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            cap=self.cap, aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class OPMD(Objective):
    """-A log π / (1 + τ)."""

    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"tau": 0.0}, {"use": "reinforce", "aggregate": "token-mean"}),
    )

    def __init__(self, tau: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        if not 0 <= tau < math.inf:
            raise ValueError(f"tau must not be negative, got {tau}")
        self.tau = float(tau)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return opmd_loss(
            output.logp, batch.need("adv"), batch.mask,
            tau=self.tau, aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class Kimi(Objective):
    """Squared distance to the optimal policy's log-ratio; advantages one per trajectory."""

    requires = frozenset({"old_logp"})
    default: ClassVar[Aggregate] = "seq-mean-token-sum"
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({}, {"use": "reinforce"}, "on-policy"),
    )

    def __init__(self, tau: float = 0.1, weight: float = 1.0) -> None:
        super().__init__(weight)
        _check_positive(tau=tau)
        self.tau = float(tau)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        loss, stats = kimi_loss(
            output.logp, batch.need("old_logp"), batch.need("adv"), batch.mask,
            tau=self.tau, **self.counts(totals),
        )  # fmt: skip
        count = batch.totals.sequences
        return loss, {name: Mean(value * count, count) for name, value in stats.items()}
