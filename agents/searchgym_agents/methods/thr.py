"""Token hidden reward: what a token's update does to the likelihood of the right answers' tokens.

THR (arXiv 2510.03669) weighs tokens by it, NTHR (arXiv 2505.18830) spares those of wrong answers
that would hurt right ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over, Reduction
from searchgym.rl.ops import spread

Others = Literal["kept", "masked"]


def influence(gradient: Tensor, hidden: Tensor, right: Tensor) -> Tensor:
    """(n,) s_t = g_t · M h_t, M = Σ g hᵀ over the tokens of right trajectories: by how much these
    get likelier all together, per step of gradient ascent on token t, where only the output layer
    moves.

    Args:
        gradient: (n, C) g, of log-probabilities by logits. hidden: (n, H). right: (n,) bool.
    """
    towards = gradient[right].T @ hidden[right]
    return ((gradient @ towards) * hidden).sum(1)


class Influences(NamedTuple):
    """One group's trained tokens."""

    places: tuple[Tensor, Tensor]
    """(n,) trajectories and columns."""
    values: Tensor
    """(n,) :func:`influence`."""
    right: Tensor
    """(n,) bool: of a trajectory whose advantage is positive."""
    wrong: Tensor
    """(n,) bool: negative."""
    share: float
    """Share of the group's trajectories whose advantage is positive."""


class _OnTokens(Over):
    """``base`` and the influence of each token on its group's right trajectories. A trajectory is
    right if the mean of its advantages is positive, wrong if it is negative (ours; for rewards of 0
    and 1 the papers' meaning)."""

    needs = frozenset({"hidden", "logit_gradient"})

    def _groups(self, batch: Batch, adv: Tensor, mask: Tensor) -> Iterator[Influences]:
        mean = adv.sum(1) / mask.sum(1).clamp_min(1)
        gradient, hidden = batch.need("logit_gradient"), batch.need("hidden")
        for number in batch.group.unique():
            own = batch.group == number
            rows, columns = places = (mask & own[:, None]).nonzero(as_tuple=True)
            if not len(rows):
                continue
            g = gradient[places].double()
            g = g[:, (g >= 0).any(0)]  # the group's own tokens, whatever other groups wrote
            right, wrong = mean[rows] > 0, mean[rows] < 0
            scored = own & mask.any(1)
            share = float((mean[scored] > 0).double().mean())
            values = influence(g, hidden[places].double(), right)
            yield Influences((rows, columns), values, right, wrong, share)


class THR(_OnTokens):
    """A_t (1 + p · sign THR_t), THR_t = s_t (:func:`influence`) for tokens of right trajectories
    and -s_t for those of wrong ones, where |THR_t| is more than ``beta`` times the mean of the
    group's. p > 0 favours what makes the right answers likelier (exploitation), p < 0 what leaves
    room for others (exploration).

    Args:
        p: In [-1, 1], or ``coef["thr"]``.
        beta: The paper's threshold is not known; its form and this number are ours.
        others: Tokens below the threshold keep their advantages, or are ``"masked"``.
    """

    registered = "advantage:thr"
    reads = frozenset({"thr"})
    reductions = (Reduction({"p": 0.0}, {"use": "grpo"}),)

    def __init__(
        self, base: object = "grpo", p: float = 0.1, beta: float = 1.0, others: Others = "kept"
    ) -> None:
        super().__init__(base)
        if not -1 <= p <= 1 or beta < 0 or others not in get_args(Others):
            raise ValueError(
                f"p is in [-1, 1], beta at least 0 and others 'kept' or 'masked', got {p}, {beta} "
                f"and {others!r}"
            )
        self.p, self.beta, self.others = float(p), float(beta), others

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        adv, p = spread(made.adv, mask), coef.get("thr", self.p)
        factor, kept = torch.ones_like(adv), torch.ones_like(mask)
        for group in self._groups(batch, adv, mask):
            reward = torch.where(group.right, group.values, -group.values)
            size = reward.abs()
            above = size > self.beta * size.mean()
            weight = 1 + p * reward.sign() * above
            factor[group.places] = weight.to(factor.dtype)
            kept[group.places] = above
        mine = batch.mask & kept if self.others == "masked" else None
        if mine is not None and made.mask is not None:
            mine = mine & made.mask
        return made._replace(adv=adv * factor, mask=made.mask if mine is None else mine)


class NTHR(_OnTokens):
    """``eta`` · A_t for the tokens of wrong trajectories with s_t > τ (:func:`influence`),
    τ = ``beta`` · the least mean of s over the tokens of one right trajectory: they have much in
    common with right answers, which a step away from them would make less likely.

    Args:
        eta: Default: 2 |1/2 - p|, p the share of right trajectories; 0 where it is a half.
    """

    registered = "advantage:nthr"
    reductions = (Reduction({"eta": 1.0}, {"use": "grpo"}),)

    def __init__(self, base: object = "grpo", beta: float = 1.0, eta: float | None = None) -> None:
        super().__init__(base)
        self.beta, self.eta = float(beta), eta

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        adv = spread(made.adv, mask)
        factor = torch.ones_like(adv)
        for group in self._groups(batch, adv, mask):
            rows, right = group.places[0], group.right
            means = [float(group.values[rows == i].mean()) for i in rows[right].unique()]
            if not means:
                continue
            eta = 2 * abs(0.5 - group.share) if self.eta is None else self.eta
            near = group.wrong & (group.values > self.beta * min(means))
            factor[group.places] = torch.where(near, eta, 1.0).to(factor.dtype)
        return made._replace(adv=adv * factor)
