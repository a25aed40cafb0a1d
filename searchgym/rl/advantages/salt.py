"""SALT (arXiv 2510.20022): steps that trajectories share get the mean of their advantages."""

from __future__ import annotations

from typing import ClassVar

from ..ops.compare import on_turns, same
from ..ops.groups import RewardGroups
from ..ops.mask import spread
from ..ops.turns import turn_ends
from ..slots.batch import Batch, Estimate
from .base import Coef, Over


class Salt(Over):
    """``base``'s advantages, each step's replaced by the mean over all steps of the group that are
    the same edge: state, action and next state (signal ``edge``).

    A step that good and bad trajectories have in common says nothing about either; what only one
    of them did keeps its advantage. The sum over all steps does not change. The released rule of
    merging is not known: this one is ours, and steps, not tokens, are averaged.
    """

    registered = "salt"
    needs: ClassVar[frozenset[str]] = frozenset({"edge"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        rows, columns = places = turn_ends(batch.turn, mask).nonzero(as_tuple=True)
        if not len(rows):
            return made._replace(adv=spread(made.adv, mask))
        own = spread(made.adv, mask)[places]
        edges = RewardGroups(own, same(batch.group[rows], batch.by_turn("edge")[places]))
        mean = edges.mean[edges.index]
        return made._replace(adv=on_turns(mean, (rows, columns), batch.turn, mask))
