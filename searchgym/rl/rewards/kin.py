"""MARS²'s rewards: a member of a tree is compared with its parent and its siblings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals


class KinReward(Slot):
    """r + ``weight`` · (r - b), b = (1 - ``siblings``) · the parent's r + ``siblings`` · the mean r
    of the other siblings; of the two only what there is, and b = r without either (MARS², arXiv
    2604.14564). Siblings left the same parent after the same turn; chains are siblings.

    All r are those before: the released code overwrites them as it goes.

    Args:
        weight: γ (released code: .5), or ``coef["kin"]``.
        siblings: λ (released code: .5).
    """

    registered = "kin"
    reads = frozenset({"kin"})

    def __init__(self, weight: float = 0.5, siblings: float = 0.5) -> None:
        if not 0 <= siblings <= 1:
            raise ValueError(f"siblings is in [0, 1], got {siblings}")
        self.weight, self.siblings = float(weight), float(siblings)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        reward = rewards.outcome
        weight = coef.get("kin", self.weight)
        places = {group.place(i): i for i in range(len(group.members))}
        state = [self._state(group, places, i) for i in range(len(group.members))]
        outcome = np.array(reward)
        for i, (above, since) in enumerate(state):
            parent = np.nan if above is None or above not in places else reward[places[above]]
            same = [j for j, s in enumerate(state) if s == (above, since) and j != i]
            others = reward[same][~np.isnan(reward[same])]
            mean = float(others.mean()) if len(others) else np.nan
            both = (1 - self.siblings) * parent + self.siblings * mean
            floor = next((b for b in (both, parent, mean) if not np.isnan(b)), reward[i])
            outcome[i] = reward[i] + weight * (reward[i] - floor)
        return Rewards(outcome, rewards.turns)

    @staticmethod
    def _state(group: Group, places: Mapping[int, int], member: int) -> tuple[int | None, int]:
        """(Place of the parent, turn after which it was left)."""
        played = group.members[member]
        above, since = played.parent, played.since
        while above is not None and above in places:  # who left where its parent began is no child
            parent = group.members[places[above]]
            if since > parent.since:
                break
            above, since = parent.parent, parent.since
        return above, since
