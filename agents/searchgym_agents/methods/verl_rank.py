"""VERL (arXiv 2509.23808): advantages grow where hidden states spread, or spread ever faster."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over
from searchgym.rl.ops import spread


def effective_rank(states: Tensor) -> float:
    """exp(-Σ p ln p) with p = σ / Σσ of the singular values of (T, H) centred states; 0 where all
    are alike."""
    if len(states) < 2:
        return 0.0
    values = torch.linalg.svdvals((states - states.mean(0)).double())
    return entropy_rank(values)


def entropy_rank(values: Tensor) -> float:
    """The same of (n,) singular values."""
    total = float(values.sum())
    if total <= 1e-9:
        return 0.0
    share = values / total
    return math.exp(-float(torch.special.xlogy(share, share).sum()))


def rank_course(states: Tensor, stride: int) -> tuple[float, float, float]:
    """Effective rank of (T, H) states; its velocity and acceleration, means over prefixes m_1, m_2,
    … of ``stride``, 2 · ``stride``, … tokens: δ_j = m_j - mean of those before it, and
    δ_j - δ_{j-1}."""
    ranks = [effective_rank(states[:n]) for n in range(stride, len(states) + 1, stride)]
    if not ranks or len(states) % stride:
        ranks.append(effective_rank(states))
    rises = [r - sum(ranks[:j]) / j for j, r in enumerate(ranks) if j]
    faster = [b - a for a, b in pairwise(rises)]
    means = [sum(x) / len(x) if x else 0.0 for x in (rises, faster)]
    return ranks[-1], means[0], means[1]


def shaped(adv: Tensor, bonus: Tensor, kappa: float = 2.0) -> Tensor:
    """A + min(max(Φ, 0), |A| / κ): for κ > 1 no sign changes."""
    return adv + torch.minimum(bonus.clamp_min(0), adv.abs() / kappa)


class EffectiveRank(Over):
    """``base``'s advantages A + min(max(Φ, 0), |A| / ``kappa``), with
    Φ = g tanh(d_rank) + (1 - g) tanh(d_velocity), g = σ(``gain`` · d_acceleration) and
    d = the distance from the run's mean of earlier steps, in units of that mean, within ±5 (VERL).

    Each is measured on a trajectory's hidden states (:func:`rank_course`). The first step has
    nothing to compare with and is ``base``.

    Args:
        stride: Tokens between prefixes; 40 in the released code, which reads far longer texts.
        momentum: Share of a new step in the running means (released code: .3).
        gain: Steepness of the gate; ours.
    """

    registered = "advantage:effective_rank"
    remembers = ("means",)
    needs = frozenset({"hidden"})

    def __init__(
        self, base: Any = "grpo", stride: int = 40, kappa: float = 2.0, momentum: float = 0.3,
        gain: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(base)
        if stride < 1 or not kappa > 1 or not 0 < momentum <= 1:
            raise ValueError("stride is at least 1, kappa above 1 and momentum in (0, 1]")
        self.stride, self.kappa = stride, float(kappa)
        self.momentum, self.gain = float(momentum), float(gain)
        self.means: list[float] | None = None

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        adv, hidden = spread(made.adv, batch.mask), batch.need("hidden")
        counted = ((batch.length > 0) & ~batch.reward.isnan()).nonzero()[:, 0].tolist()
        courses = [rank_course(hidden[i][batch.mask[i]], self.stride) for i in counted]
        bonus = torch.zeros(len(batch), dtype=adv.dtype)
        for i, course in zip(counted, courses, strict=True):
            bonus[i] = self._bonus(course)
        if courses:
            # fsum: the mean must not depend on the order of trajectories
            new = [math.fsum(c[k] for c in courses) / len(courses) for k in range(3)]
            old = new if self.means is None else self.means
            self.means = [o + self.momentum * (n - o) for o, n in zip(old, new, strict=True)]
        return made._replace(adv=spread(shaped(adv, bonus[:, None], self.kappa), batch.mask))

    def _bonus(self, course: tuple[float, float, float]) -> float:
        if self.means is None:
            return 0.0
        rank, velocity, acceleration = (
            max(-5.0, min(5.0, (now - mean) / (abs(mean) + 1e-6)))
            for now, mean in zip(course, self.means, strict=True)
        )
        gate = 1 / (1 + math.exp(-self.gain * acceleration))
        return gate * math.tanh(rank) + (1 - gate) * math.tanh(velocity)
