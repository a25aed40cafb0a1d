"""Signals from the environment's own outcome of an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import CardError, unknown
from ...rewards.registry import TURN
from ..slots.protocols import Slot
from ..slots.records import Group, Played, Signals, Workers


class Return(Slot):
    """``return``: the sum of the environment's rewards; NaN where the infrastructure failed."""

    registered = "return"
    provides = frozenset({"return"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"return": np.array([total(m) for m in group.members])} for group in groups]


class Parts(Slot):
    """Reward parts by name, whatever the environment's weights: ``em``, ``f1``, ``invalid``, … and
    those of one's own that its reward names, if with weight 0.

    A part of the answer is 0 for an episode that was not answered; parts of turns are summed. NaN
    where the infrastructure failed.

    Args:
        names: Parts to measure. One that the episodes do not measure is a ``CardError`` when the
            first is measured.
    """

    registered = "parts"

    def __init__(self, names: Sequence[str] = ("em", "f1")) -> None:
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
    if name in TURN:
        return float(sum(t.reward_parts.get(name, 0.0) for t in member.episode.turns))
    if (outcome := member.episode.outcome()) is None:
        return 0.0
    parts = outcome.parts
    if name not in parts:
        raise CardError(
            unknown("reward part", name, {*parts, *TURN})
            + "; to measure a part of your own, name it in the environment's reward, if with "
            f"weight 0: {{{name!r}: 0}}"
        )
    return float(parts[name])
