"""A²TGPO (arXiv 2605.06200): turns' gains compared with the same turn's, also in how far a turn may
move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over
from searchgym.rl.ops import (
    Std,
    checked_std,
    masked,
    on_turns,
    over_turn,
    reward_to_go,
    same,
    spread,
    standardized,
    turn_ends,
)


def per_root(scores: Tensor, ends: Tensor, gamma: float = 1.0) -> Tensor:
    """(B, T) D_k / √n_k at ``ends``: the discounted sum of the scores (B, T) of a turn and those
    after it, by the root of their number, so that independent scores of variance 1 give variance 1
    at every turn (γ 1)."""
    sums = reward_to_go(scores, ends, gamma)
    number = reward_to_go(torch.ones_like(scores), ends)
    return masked(sums / number.clamp_min(1).sqrt(), ends)


def clip_factor(score: Tensor, beta: float = 0.3) -> Tensor:
    """1 + β(2σ(z) - 1), in (1 - β, 1 + β): turns that gained may move further."""
    return 1 + beta * (2 * torch.sigmoid(score) - 1)


class A2TGPO(Over):
    """Sum of ``base`` of the outcome and ``alpha`` · D_k / √n_k, and clip ranges of turns times
    1 + β(2σ(z_k) - 1).

    z_k is a turn's reward (its information gain) among the k-th turns of its group. A trajectory's
    last turn, after which nothing is known, has none: the outcome alone pays it. Turns are recorded
    (released code infers them from changes of the advantage, which merges equal neighbours).

    Args:
        base: An estimator as in a recipe, which sees outcomes alone.
    """

    registered = "advantage:a2tgpo"
    needs = frozenset({"turn_reward"})
    provides = frozenset({"clip_scale"})
    reads = frozenset({"a2tgpo"})

    def __init__(
        self, base: Any = "grpo", alpha: float = 0.3, beta: float = 0.3, gamma: float = 1.0,
        std: Std = "sample", eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__(base)
        if not 0 <= beta < 1:
            raise ValueError(f"beta is in [0, 1), got {beta}")
        self.alpha, self.beta, self.gamma = float(alpha), float(beta), float(gamma)
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        paid = replace(batch, reward=batch.need("outcome"), turn_reward=None)
        made = self.base.estimate(paid, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        last = batch.turn == torch.where(mask, batch.turn, -1).amax(1, keepdim=True)
        gain = over_turn(masked(batch.need("turn_reward"), mask), batch.turn, mask)
        ends = turn_ends(batch.turn, mask) & ~last
        rows, columns = places = ends.nonzero(as_tuple=True)
        kth = same(batch.group[rows], batch.turn[places])
        score = standardized(gain[places], kth, std=self.std, eps=self.eps)
        at_ends = torch.zeros_like(gain)
        if len(rows):
            at_ends = at_ends.index_put((rows, columns), score)
        summed = per_root(at_ends, ends, self.gamma)[places]
        alpha = coef.get("a2tgpo", self.alpha)
        more = on_turns(summed, (rows, columns), batch.turn, mask)
        scale = clip_factor(on_turns(score, (rows, columns), batch.turn, mask), self.beta)
        if made.clip_scale is not None:
            scale = scale * made.clip_scale
        adv = spread(made.adv, batch.mask) + alpha * more
        return made._replace(adv=adv, clip_scale=scale)
