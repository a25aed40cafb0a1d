"""HierSearch's reward: the answer, or else that several sources were looked at."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym import CardError
from searchgym.rewards import Outcome, well_formed


@dataclass(frozen=True)
class HierSearch:
    """Pay the F1 of the answer, or, where it is 0, ``tried`` · distinct tools used / ``available``.

    0 for an episode with a turn that is no action, or without an answer (HierSearch, arXiv
    2508.08088; released code). Tools of all roles count.

    Raises:
        CardError: no tools are available.
    """

    registered = "reward:hiersearch"
    systems = ("HierSearch",)

    available: int = 3
    tried: float = 0.1

    def __post_init__(self) -> None:
        if self.available < 1:
            raise CardError(f"available is a number of tools, at least 1, got {self.available}")

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome):
            return 0.0
        used = {call.tool for turn in outcome.turns for call in turn.calls}
        return outcome.f1 or self.tried * min(len(used), self.available) / self.available
