"""Rewards of another role: what came of the episode in which it acted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import POLICY, Floats, Group, Rewards, Signals


class ServedReward(Slot):
    """Pays each member of another role ``weight`` times the outcome so far of the episode in which
    it acted (``Played.serves``), in place of what its own short episode earned.

    Args:
        role: Of those members.
    """

    registered = "served"

    def __init__(self, role: str, weight: float = 1.0) -> None:
        if role == POLICY:
            raise ValueError(f"role is another than the policy's, got {role!r}")
        self.role, self.weight = role, float(weight)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        outcome, of = np.array(rewards.outcome), outcomes_served(group, rewards)
        for i, member in enumerate(group.members):
            if member.role == self.role and not np.isnan(outcome[i]):
                outcome[i] = self.weight * of[i]
        return Rewards(outcome, rewards.turns)


def outcomes_served(group: Group, rewards: Rewards) -> Floats:
    """(M,) outcome of the episode in which each member acted; NaN for one that acted in none of the
    group's."""
    of = {m.episode.config.episode_id: i for i, m in enumerate(group.members)}
    places = [of.get(m.serves) if m.serves else None for m in group.members]
    return np.array([np.nan if i is None else rewards.outcome[i] for i in places])
