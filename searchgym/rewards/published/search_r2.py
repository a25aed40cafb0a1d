"""Search-R2's outcome times the density of what was found."""

from __future__ import annotations

from dataclasses import dataclass

from ...types import ToolResult
from ..outcome import Outcome


@dataclass(frozen=True)
class SearchR2:
    """Pay EM · (1 + ``density`` · u / n) where u of the n passages shown are gold.

    Search-R2 (arXiv 2602.03647) couples the outcome with the density of evidence; its exact form
    was not read, this one is ours. Without passages it is EM.
    """

    registered = "search_r2"
    systems = ("Search-R2",)

    density: float = 0.2

    def final(self, outcome: Outcome) -> float:
        gold = set(outcome.evidence)
        shown = [
            hit.passage.id in gold or not gold.isdisjoint(result.meta.get("evidence", ()))
            for turn in outcome.turns for result in turn.results
            if isinstance(result, ToolResult) for hit in result.hits
        ]  # fmt: skip
        useful = sum(shown) / len(shown) if shown else 0.0
        return outcome.em * (1.0 + self.density * useful)
