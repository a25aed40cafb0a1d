"""StepSearch's rewards of steps and of keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from searchgym import Search
from searchgym.rewards import Outcome, lookups, queries, token_f1


@dataclass(frozen=True)
class StepSearch:
    """Pay each search for new gold passages less repeated ones, the end for F1 and keywords.

    A search earns ``step`` · (gain - redundancy); the end F1 + ``keywords`` · mean over the gold
    queries of the best query's token F1 (Wang et al., StepSearch, arXiv 2505.15107, equations of
    the step and key rewards; .618 and .6 as released. The released code adds the step reward to an
    aliased view and so pays 1.6 times it: ``step=1.6`` for parity). The paper compares texts by
    TF-IDF; passages have ids here, so a passage matches itself alone.
    """

    registered = "reward:step_search"
    systems = ("StepSearch",)

    step: float = 0.6
    keywords: float = 0.618

    def turn(self, outcome: Outcome) -> float:
        if not isinstance(outcome.action, Search) or not outcome.calls or not outcome.evidence:
            return 0.0
        now = len(outcome.turns) - 1
        before: set[str] = set()
        ids: list[str] = []
        for lookup in lookups(outcome):
            if lookup.turn < now:
                before.update(lookup.ids)
            else:
                ids += lookup.ids
        gain = outcome.new_evidence / outcome.evidence_total
        return self.step * (gain - redundancy(ids, before))

    def final(self, outcome: Outcome) -> float:
        asked, gold = queries(outcome), outcome.task.queries
        best = [max((token_f1(query, wanted) for query in asked), default=0.0) for wanted in gold]
        return outcome.f1 + self.keywords * (sum(best) / len(best) if best else 0.0)


def redundancy(ids: Sequence[str], before: set[str]) -> float:
    """Share of a search's passages that were shown before, or earlier in the same list."""
    known, repeated = set(before), 0
    for passage in ids:
        repeated += passage in known
        known.add(passage)
    return repeated / len(ids) if ids else 0.0


def gains(similarities: Sequence[Sequence[float]]) -> list[float]:
    """Gain of each step from its best similarity to each gold passage:
    mean_i max(c_{t,i} - max_{s<t} c_{s,i}, 0)."""
    best = [0.0] * len(similarities[0]) if similarities else []
    step_gains = []
    for row in similarities:
        step_gains.append(sum(max(c - m, 0.0) for c, m in zip(row, best, strict=True)) / len(row))
        best = [max(c, m) for c, m in zip(row, best, strict=True)]
    return step_gains
