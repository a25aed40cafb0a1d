"""Signal: how near each turn of a tree brings its path to a success (ReST-MCTS*)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Signals, Workers
from .outcome import total
from .turns import in_columns

Step = tuple[int, int]
"""(Member that wrote it, turn)."""


def qualities(errors: Sequence[float], remaining: Sequence[int]) -> list[float]:
    """Quality values v_1, v_2, … of a path's steps (ReST-MCTS*, arXiv 2406.03816): v_0 = 0,
    v_k = max(0, v_{k-1} + w_k) with w_k = (1 - v_{k-1}) (1 - 2 e_k) / (m_k + 1).

    Args:
        errors: e_k in [0, 1], how wrong a step is.
        remaining: m_k, the steps that are left after it.
    """
    value, made = 0.0, []
    for error, left in zip(errors, remaining, strict=True):
        value = max(0.0, value + (1 - value) * (1 - 2 * error) / (left + 1))
        made.append(value)
    return made


class StepQuality(Slot):
    """``turn_quality``: (M, K) the quality v_k of each turn of a member's path
    (:func:`qualities`), its parents' turns included, with the tree for a judge: e_k = 0 if some
    leaf below the turn is a success, else 1, and m_k the turns from there to the nearest success,
    or else to the nearest end. It rises to 1 along a successful path, the faster the fewer turns it
    takes. NaN for turns below which everything broke.

    Args:
        solved: Return of a success.
    """

    registered = "quality"
    provides = frozenset({"turn_quality"})

    def __init__(self, solved: float = 0.5) -> None:
        self.solved = float(solved)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"turn_quality": self._measured(group)} for group in groups]

    def _measured(self, group: Group) -> Floats:
        paths = [steps(group, i) for i in range(len(group.members))]
        ends: dict[Step, list[tuple[bool, int]]] = {}
        for way, member in zip(paths, group.members, strict=True):
            if not member.broken and member.purpose != "baseline":
                for step in way:
                    end = (total(member) < self.solved, len(way))  # successes are the smaller
                    ends.setdefault(step, []).append(end)
        return in_columns([self._along(way, ends) for way in paths])

    def _along(self, way: list[Step], ends: dict[Step, list[tuple[bool, int]]]) -> list[float]:
        nearest = [min(ends[step]) for step in way if step in ends]
        left = [turns - number for number, (_, turns) in enumerate(nearest, start=1)]
        by_step = qualities([float(failed) for failed, _ in nearest], left)
        return [*by_step, *[np.nan] * (len(way) - len(by_step))]


def steps(group: Group, place: int) -> list[Step]:
    """All steps of a member's path; those of a parent that was dropped are taken for its own."""
    index = {group.place(i): i for i in range(len(group.members))}
    member = group.members[place]
    own = [(place, turn) for turn in range(member.since, len(member.episode.turns))]
    if member.parent is None or member.since == 0:
        return own
    if member.parent not in index:
        return [*((place, turn) for turn in range(member.since)), *own]
    return [*steps(group, index[member.parent])[: member.since], *own]
