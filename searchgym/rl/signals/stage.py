"""Signal: the stage of an episode to which each turn belongs."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.episode import Episode
from ...types import Answer
from ..slots.protocols import Slot
from ..slots.records import Group, Signals, Workers
from .turns import in_columns


class TurnStage(Slot):
    """``stage``: (M, K) 0 for an episode's first turn, which plans, 2 for the one that answers, 1
    for those between, which look things up. An answer at once is stage 2 alone.

    RubricEM (arXiv 2605.10899) reads four stages off headings in the text; these three, which every
    search agent has, are ours.
    """

    registered = "stage"
    by_turn = frozenset({"stage"})
    provides = frozenset({"stage"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"stage": in_columns([stages(m.episode) for m in g.members])} for g in groups]


def stages(episode: Episode) -> list[float]:
    """The stage of each turn."""
    return [
        2.0 if isinstance(turn.action, Answer) else float(min(k, 1))
        for k, turn in enumerate(episode.turns)
    ]
