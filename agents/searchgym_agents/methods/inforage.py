"""InForage's reward of coverage."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome, lookups


@dataclass(frozen=True)
class InForage:
    """Pay the answer and the best single turn's share of the gold passages, less for many turns.

    (EM + ``share`` · max_t |gold ∩ shown in turn t| / |gold|) · ``discount``^max(0, n - ``free``)
    for n turns that looked something up (Qian and Liu, InForage, arXiv 2505.09316; released code).
    That the exponent counts only the turns beyond the free ones is our reading.
    """

    registered = "reward:inforage"
    systems = ("InForage",)

    share: float = 0.2
    discount: float = 0.95
    free: int = 2

    def final(self, outcome: Outcome) -> float:
        gold = set(outcome.evidence)
        shown: dict[int, set[str]] = {}
        for lookup in lookups(outcome):
            shown.setdefault(lookup.turn, set()).update(gold.intersection(lookup.ids))
        best = max((len(ids) for ids in shown.values()), default=0)
        coverage = best / len(gold) if gold else 0.0
        late = max(0, len(shown) - self.free)
        return (outcome.em + self.share * coverage) * self.discount**late
