"""Rejection sampling: train on the successes alone (RAFT, expert iteration, ReST-EM)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..slots.records import Rewards, Scored
from .uniform import UniformTasks


class Rejection(UniformTasks):
    """Keeps members with reward ≥ ``threshold``, equal texts once, at most ``cap`` per group (the
    best; of equal ones the first)."""

    registered = "rejection"

    def __init__(self, threshold: float = 0.5, cap: int | None = None) -> None:
        super().__init__()
        if cap is not None and cap < 1:
            raise ValueError(f"cap must be at least 1, got {cap}")
        self.threshold, self.cap = float(threshold), cap

    def admit(self, scored: Scored) -> Scored | None:
        outcome = scored.rewards.total
        good = [i for i in scored.training if outcome[i] >= self.threshold]
        good.sort(key=lambda i: -outcome[i])
        seen: set[tuple[str, ...]] = set()
        kept: list[int] = []
        for i in good:
            text = tuple(t.text for t in scored.group.members[i].episode.turns)
            if text not in seen:
                seen.add(text)
                kept.append(i)
        return taken(scored, sorted(kept[: self.cap])) if kept else None


def taken(scored: Scored, places: list[int]) -> Scored:
    """Some members of a group, with what they earned."""
    turns, group = scored.rewards.turns, scored.group
    members = tuple(group.members[i] for i in places)
    return Scored(
        replace(group, members=members, places=tuple(map(group.place, places))),
        {name: np.asarray(values[places]) for name, values in scored.signals.items()},
        Rewards(
            scored.rewards.outcome[places],
            None if turns is None else turns[places],
        ),
    )
