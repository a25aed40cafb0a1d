"""ParallelSearch's reward of decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from searchgym import Search
from searchgym.rewards import Outcome, in_form, structural


@dataclass(frozen=True)
class ParallelSearch:
    """Pay the answer in form, parallel queries exactly where the question splits, and few turns.

    Answer: right and in form 1, right 0.9, in form 0.1, else 0. Decomposition: a question that
    splits and was asked in parallel ``parallel``, one that does not and was not ``sequential``,
    else 0. Count: ``count`` · (1 - distance of the searching turns from their target), the target
    being 1 for a question that splits, else at least 2; an episode that never answers is paid for
    these two alone (Zhao et al., ParallelSearch, arXiv 2508.09303; released ``qa_em_format.py``,
    whose counts hold two searches of the prompt besides, with the numbers of the released
    training). The released code looks for parallel queries in the first search, here in any; that
    ``families`` are the questions that split is ours, too.
    """

    registered = "reward:parallel_search"
    systems = ("ParallelSearch",)

    families: Sequence[str] = field(default_factory=lambda: ["comparison", "parallel"])
    parallel: float = 0.45
    sequential: float = 0.15
    count: float = 0.35
    structure: float = 0.1

    def final(self, outcome: Outcome) -> dict[str, float]:
        searches = [t.action for t in outcome.turns if isinstance(t.action, Search) and t.calls]
        splits = outcome.family in self.families
        split = any(len(search.queries) > 1 for search in searches)
        answer = structural(
            right=outcome.em == 1.0,
            valid=in_form(outcome),
            answered=outcome.answered,
            structure=self.structure,
            form=0.0,
        )
        decomposition = 0.0
        if splits == split:
            decomposition = self.parallel if splits else self.sequential
        turns = len(searches)
        distance = abs(turns - 1) if splits else abs(min(turns, 2) - 2)
        return {
            "answer": answer,
            "decomposition": decomposition,
            "count": self.count * (1 - distance),
        }
