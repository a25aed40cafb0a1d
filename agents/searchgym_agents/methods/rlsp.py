"""RLSP's bonus for exploring."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome


@dataclass(frozen=True)
class Exploration:
    """Pay for thinking and searching at length, whatever comes of it.

    ``bonus`` · min(1, w / ``words``) after w words of the policy's own. RLSP (Ye et al., arXiv
    2502.06773) adds an exploration reward to that of the outcome, the simplest of which pays
    length; the formula and both numbers are ours. Use it beside the answer's reward and let a
    curriculum lower ``w_exploration``. With bonus 0 it is the answer's reward alone.
    """

    registered = "reward:exploration"
    systems = ("RLSP",)

    bonus: float = 0.2
    words: int = 400

    def final(self, outcome: Outcome) -> float:
        written = sum(len(turn.text.split()) for turn in outcome.turns)
        return self.bonus * min(1.0, written / self.words)
