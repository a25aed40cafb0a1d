"""Signal: how much an episode used its tools, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...types import ToolResult
from ..slots.protocols import Slot
from ..slots.records import Group, Played, Signals, Workers


class ToolBonus(Slot):
    """``tool_use``: min(1, ``each`` · turns with a result of a tool), the bonus that SPEAR (arXiv
    2509.22601) lets fall to 0 as training goes on."""

    registered = "tool_use"
    provides = frozenset({"tool_use"})

    def __init__(self, each: float = 0.1) -> None:
        if not each > 0:
            raise ValueError(f"each must be positive, got {each}")
        self.each = float(each)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {"tool_use": np.array([min(1.0, self.each * tool_turns(m)) for m in group.members])}
            for group in groups
        ]


def tool_turns(member: Played) -> int:
    """Number of turns that got a result of a tool."""
    return sum(
        any(isinstance(r, ToolResult) for r in turn.results) for turn in member.episode.turns
    )
