"""SmartSearch's score of queries."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome, lookups, useful, well_formed


@dataclass(frozen=True)
class SmartSearch:
    """Pay a right answer less for bad queries, a wrong one a little for good ones.

    A query is good if it showed a gold passage and at most ``known`` passages shown before. F1 of
    at least ``enough``: max(1 - .1 · bad, .7); otherwise min(.1 · good, .3); ``form`` more, and
    0 for an episode with a turn that is no action or without an answer (SmartSearch,
    arXiv 2601.04888; released code). The paper's judge of usefulness is exact here.
    """

    registered = "reward:smart_search"
    systems = ("SmartSearch",)

    step: float = 0.1
    least: float = 0.7
    most: float = 0.3
    form: float = 0.1
    enough: float = 0.8
    known: int = 1

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome):
            return 0.0
        made = [lookup for lookup in lookups(outcome) if lookup.tool == "search"]
        good = sum(useful(lookup, outcome) and lookup.seen <= self.known for lookup in made)
        return self.form + query_score(outcome.f1 >= self.enough, good, len(made) - good,
                                       self.step, self.least, self.most)  # fmt: skip


def query_score(
    right: bool, good: int, bad: int, step: float = 0.1, least: float = 0.7, most: float = 0.3
) -> float:
    """The score of an episode with so many good and bad queries, the form's part aside."""
    return max(1.0 - step * bad, least) if right else min(step * good, most)
