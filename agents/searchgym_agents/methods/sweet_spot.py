"""Sweet-Spot Learning's ladder of zones."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym import CardError
from searchgym.errors import unknown
from searchgym.rewards import SCORES, Outcome


@dataclass(frozen=True)
class SweetSpot:
    """Pay the zone that a score falls into, 1/K to 1, so that near misses differ from far ones.

    The ``zones`` K divide [0, 1] evenly; ``score`` 0 to 1/K earns 1/K, …, the last zone 1; all
    times ``success``, a score that gates (Sweet-Spot Learning, arXiv 2601.22491). Zones that grow
    towards the optimum are the paper's; their edges and values, and which score says how near an
    episode came, are ours: names of ``lookups.SCORES``. ``score="thrift", success="em"`` ranks
    right answers by their queries.

    Raises:
        CardError: a score that is not known, or fewer than two zones.
    """

    registered = "reward:sweet_spot"
    systems = ("SSL",)

    score: str = "f1"
    success: str = "answered"
    zones: int = 4

    def __post_init__(self) -> None:
        for name in (self.score, self.success):
            if name not in SCORES:
                raise CardError(unknown("score", name, SCORES))
        if self.zones < 2:
            raise CardError(f"a ladder has at least 2 zones, got {self.zones}")

    def final(self, outcome: Outcome) -> float:
        gate = SCORES[self.success](outcome)
        return gate * rung(SCORES[self.score](outcome), self.zones) if gate else 0.0


def rung(score: float, zones: int) -> float:
    """Value of the zone that holds a score in [0, 1]."""
    return (min(int(score * zones), zones - 1) + 1) / zones
