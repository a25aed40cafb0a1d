"""Serialises played groups for another process: JSON snapshots and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.episode import Episode
from ..policies.rows import TrainingRow
from .slots.records import Group, Played, Purpose, TaskPlan

Packed = list[
    tuple[
        dict[str, Any], tuple[TrainingRow, ...], Purpose, int | None, int, Mapping[str, float],
        str, str,
    ]
]  # fmt: skip
"""Members of a group, each as the episode's snapshot, its rows, purpose, parent, siblings, usage,
role and whom it serves."""


def pack(group: Group) -> Packed:
    """Serialise all of a group but its plan."""
    return [
        (
            m.episode.snapshot(), m.rows, m.purpose, m.parent, m.siblings, dict(m.usage),
            m.role, m.serves,
        )
        for m in group.members
    ]  # fmt: skip


def unpack(plan: TaskPlan, packed: Sequence[Any], reward: Any = None) -> Group:
    """Restore what :func:`pack` was given; episodes are replayed.

    All processes of a training run its code, so a reward's own parts are imported by their paths;
    ``reward``: the environment's, where no path leads to one.
    """
    members = (Played(Episode.restore(s, reward=reward, trust=True), *rest) for s, *rest in packed)
    return Group(plan, tuple(members))
