"""Coverage of the evidence by a submodular measure, paid as marginal gains."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym import CardError
from searchgym.rewards import Outcome, new_evidence


@dataclass(frozen=True)
class Coverage:
    """Pay a turn what it adds to (found / gold) ^ ``power``, the less the more is known already.

    A concave function of the number of gold passages shown is submodular and monotone, and marginal
    gains add up to its value at the end (Prajapat et al., Submodular Reinforcement Learning,
    arXiv 2307.13372, marginal-gain rewards). ``power`` 1 is the part ``evidence``; .5 is ours.

    Raises:
        CardError: a power that is not above 0 and at most 1.
    """

    registered = "reward:coverage"
    systems = ("Submodular RL",)

    power: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise CardError(f"coverage needs a power above 0 and at most 1, got {self.power}")

    def turn(self, outcome: Outcome) -> float:
        total = outcome.evidence_total
        if not total or not outcome.new_evidence:
            return 0.0
        after = sum(new_evidence(outcome))
        before = after - outcome.new_evidence
        return float((after / total) ** self.power - (before / total) ** self.power)
