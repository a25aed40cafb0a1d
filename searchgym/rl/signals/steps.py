"""Signal: a score of each turn by what the world knows of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.episode import Episode
from ...types import Answer, Invalid
from ..slots.protocols import Slot
from ..slots.records import Group, Signals, Workers
from .turns import in_columns


def step_score(episode: Episode, turn: int, bonus: float = 0.1, budget: int = 4) -> float:
    """A turn's score. Of a search or another call: 1 if it showed a gold passage that was not seen
    before, 0 if it did not, -1 if it was no valid action. Of an answer: 1 if it is an exact match,
    0 if it shares a word with a gold one (F1 > 0), else -1; and ``bonus`` · (B - t) / B for the
    t-th turn, t = 1, …, B = ``budget``, less than 0 beyond."""
    taken = episode.turns[turn]
    if isinstance(taken.action, Invalid):
        return -1.0
    if not isinstance(taken.action, Answer) or episode.phase != "done":
        return float(taken.reward_parts.get("evidence", 0.0) > 0)
    parts = episode.parts or {}
    score = 1.0 if parts.get("em", 0.0) >= 1 else 0.0 if parts.get("f1", 0.0) > 0 else -1.0
    return score + bonus * (budget - turn - 1) / budget


class StepScore(Slot):
    """``turn_score``: (M, K) :func:`step_score` of each turn, which stands where SLATE (arXiv
    2602.23440) asks a judge: the world knows which passages are needed. Thoughts are not judged.

    Args:
        bonus: Paid for answering early (paper: .1).
        budget: Turns that an early answer is held to (paper: 4).
    """

    registered = "step_score"
    provides = frozenset({"turn_score"})

    def __init__(self, bonus: float = 0.1, budget: int = 4) -> None:
        if budget < 1:
            raise ValueError(f"budget must be at least 1, got {budget}")
        self.bonus, self.budget = float(bonus), budget

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {
                "turn_score": in_columns(
                    [
                        [
                            step_score(m.episode, k, self.bonus, self.budget)
                            for k in range(len(m.episode.turns))
                        ]
                        for m in group.members
                    ]
                )
            }
            for group in groups
        ]
