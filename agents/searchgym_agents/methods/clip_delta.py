"""Clip and Delta: rewards of turns that cannot be collected by turns without need."""

from __future__ import annotations

import numpy as np

from searchgym.rl import Coef, Floats, Group, Rewards, RewardTransform, Signals


class ClipTurns(RewardTransform):
    """Replaces each turn's reward r by min(r - ``limit``, 0): no turn earns anything, so that
    superfluous ones cannot be collected (Clip of Gao et al., arXiv 2410.15115)."""

    registered = "outcome:clip_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def __init__(self, limit: float = 0.5) -> None:
        self.limit = float(limit)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        if rewards.turns is None:
            return rewards
        return Rewards(rewards.outcome, np.minimum(rewards.turns - self.limit, 0.0))


class DeltaTurns(RewardTransform):
    """Replaces each turn's reward by how much it exceeds the next one's; the turn before the last
    keeps its own and the last, which the outcome pays, gets 0 (Delta of Gao et al., arXiv
    2410.15115). The sum is the first turn's reward, however many follow."""

    registered = "outcome:delta_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        if rewards.turns is None:
            return rewards
        return Rewards(rewards.outcome, np.array([_deltas(row) for row in rewards.turns]))


def _deltas(row: Floats) -> Floats:
    """One member's differences; NaN stays."""
    made = row.copy()
    here = np.flatnonzero(~np.isnan(row))
    if len(here):
        steps = row[here]
        steps[-1] = 0.0
        made[here] = np.append(steps[:-1] - steps[1:], 0.0)
    return made
