"""What the environment itself says of an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import unknown
from ...scoring.reward import OUTCOME_PARTS, PARTS
from ..slots.protocols import Slot
from ..slots.records import Group, Played, Signals, Workers


class Return(Slot):
    """``return``: the sum of the environment's rewards; NaN where the infrastructure failed."""

    registered = "return"
    provides = frozenset({"return"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"return": np.array([total(m) for m in group.members])} for group in groups]


class Parts(Slot):
    """Reward parts by name, whatever the environment's weights: ``em``, ``f1``, ``invalid``, …

    An outcome part is 0 for an episode that was not answered; parts of turns are summed. NaN where
    the infrastructure failed.
    """

    registered = "parts"

    def __init__(self, names: Sequence[str] = ("em", "f1")) -> None:
        for name in names:
            if name not in PARTS:
                raise ValueError(unknown("reward part", name, PARTS))
        self.names = tuple(names)
        self.provides = frozenset(names)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {name: np.array([part(m, name) for m in group.members]) for name in self.names}
            for group in groups
        ]


def total(member: Played) -> float:
    """The return."""
    return float("nan") if member.broken else float(sum(t.reward for t in member.episode.turns))


def part(member: Played, name: str) -> float:
    """A reward part, unweighted."""
    if member.broken:
        return float("nan")
    outcome = member.episode.outcome()
    if name in OUTCOME_PARTS:
        return float(outcome.parts.get(name, 0.0)) if outcome else 0.0
    return float(sum(t.reward_parts.get(name, 0.0) for t in member.episode.turns))
