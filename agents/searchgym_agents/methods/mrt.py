"""MRT: against having answered at once, and more for turns after which answering at once would go
better."""

from __future__ import annotations

import numpy as np
import torch

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, Floats, GoldLogp
from searchgym.rl.ops import masked


class MRT(AdvantageEstimator):
    """R - J_k + ``alpha`` (J_{k+1} - J_k) for the tokens of turn k, J_k being the reward of
    answering in its place; R - J_k for the last turn, after which nothing can be forced. A turn
    whose J is not known is compared with 0 and has made no progress. Nothing is compared within a
    group: an episode is its own baseline.

    Args:
        alpha: Weight of progress, or ``coef["mrt"]``.
        worth: Reward of a right answer, in which ``gold_chance`` is counted.
    """

    registered = "advantage:mrt"
    requires = frozenset({"gold_chance"})
    reads = frozenset({"mrt"})

    def __init__(self, alpha: float = 1.0, worth: float = 1.0) -> None:
        self.alpha, self.worth = float(alpha), float(worth)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        stopping = self.worth * batch.signal("gold_chance")
        here, unknown = torch.nan_to_num(stopping), stopping.isnan()
        last = torch.where(mask, batch.turn, torch.zeros_like(batch.turn)).amax(1, keepdim=True)
        number = torch.arange(stopping.shape[1])[None, :]
        there = (number < last) & ~unknown & ~unknown.roll(-1, 1)
        progress = torch.where(there, here.roll(-1, 1) - here, torch.zeros_like(here))
        by_turn = batch.reward[:, None] - here + coef.get("mrt", self.alpha) * progress
        adv = by_turn.gather(1, batch.turn.clamp_max(stopping.shape[1] - 1))
        return Estimate(masked(torch.nan_to_num(adv).to(batch.reward.dtype), mask))


class GoldChance(GoldLogp):
    """``gold_chance``: (M, K) the probability that an answer forced in place of each turn is the
    gold one (a task's first), word for word: the expected exact match of stopping there (MRT, arXiv
    2503.07572, whose code samples such answers). NaN as in ``gold_logp``.
    """

    registered = "signal:gold_chance"
    by_turn = frozenset({"gold_chance"})
    provides = frozenset({"gold_chance"})

    def value(self, logp: Floats, counts: Floats) -> Floats:
        chances: Floats = np.exp(logp)
        return chances
