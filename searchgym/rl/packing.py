"""Played groups as plain values, to be sent to another process: JSON snapshots and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..episode import Episode
from ..policies.rows import Row
from .slots.records import Group, Played, Purpose, TaskPlan

Packed = list[tuple[dict[str, Any], tuple[Row, ...], Purpose]]
"""Per member: the episode's snapshot, its rows, its purpose."""


def pack(group: Group) -> Packed:
    """All of a group but its plan."""
    return [(m.episode.snapshot(), m.rows, m.purpose) for m in group.members]


def unpack(plan: TaskPlan, packed: Sequence[Any]) -> Group:
    """What :func:`pack` was given; episodes are replayed."""
    members = (Played(Episode.restore(s), rows, purpose) for s, rows, purpose in packed)
    return Group(plan, tuple(members))
