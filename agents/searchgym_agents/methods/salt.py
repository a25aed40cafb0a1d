"""SALT: steps that trajectories share get the mean of their advantages."""

from __future__ import annotations

from searchgym import Episode
from searchgym.rl import Anchor, Batch, Coef, Estimate, Over
from searchgym.rl.ops import RewardGroups, on_turns, same, spread, turn_ends


class Salt(Over):
    """``base``'s advantages, each step's replaced by the mean over all steps of the group that are
    the same edge: state, action and next state (signal ``edge``).

    A step that good and bad trajectories have in common says nothing about either; what only one
    of them did keeps its advantage. The sum over all steps does not change. The released rule of
    merging is not known: this one is ours, and steps, not tokens, are averaged.
    """

    registered = "advantage:salt"
    needs = frozenset({"edge"})

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


class Edge(Anchor):
    """``edge``: (M, K) a number for what a turn was: the state in which it began, what it did
    (its parsed action, so that thoughts do not matter) and the state that it led to. Within a group
    equal steps have equal numbers (SALT, arXiv 2510.20022).

    Args:
        of: A state is what the environment wrote since the last turn (``"news"``), or all that is
            visible (``"context"``); SALT's window of the last steps lies between the two.
    """

    registered = "signal:edge"
    by_turn = frozenset({"edge"})
    provides = frozenset({"edge"})

    def _keys(self, episode: Episode) -> list[tuple[object, ...]]:
        states = [*self._states(episode), ()]
        return [
            (states[k], repr(turn.action), states[k + 1]) for k, turn in enumerate(episode.turns)
        ]
