"""Rewards of turns, reshaped so that their sum over an episode is bounded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Rewards, Signals


class ClipTurns(Slot):
    """Replaces each turn's reward r by min(r - ``limit``, 0): no turn earns anything, so that
    superfluous ones cannot be collected (Clip of Gao et al., arXiv 2410.15115)."""

    registered = "clip_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def __init__(self, limit: float = 0.5) -> None:
        self.limit = float(limit)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        if rewards.turns is None:
            return rewards
        return Rewards(rewards.outcome, np.minimum(rewards.turns - self.limit, 0.0))


class DeltaTurns(Slot):
    """Replaces each turn's reward by how much it exceeds the next one's; the turn before the last
    keeps its own and the last, which the outcome pays, gets 0 (Delta of Gao et al., arXiv
    2410.15115). The sum is the first turn's reward, however many follow."""

    registered = "delta_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
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
