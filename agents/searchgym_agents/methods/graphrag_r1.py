"""GraphRAG-R1's two rewards, one a phase."""

from __future__ import annotations

import math
from dataclasses import dataclass

from searchgym import Call, Search
from searchgym.rewards import Outcome, lookups


@dataclass(frozen=True)
class GraphRagPra:
    """Pay each new retrieval less than the one before: ``first`` · ``decay``^j for the j-th.

    Repeated queries and those after the ``most``-th earn nothing (progressive retrieval
    attenuation, Yu et al., GraphRAG-R1, arXiv 2507.23581). Formula and constants of the
    paper were not read: a geometric series with the released re-implementation's decay of .8;
    ``first`` and ``most`` are ours. Its phase comes after the format's and before
    ``graphrag_caf``'s: let a curriculum set ``w_graphrag_pra`` and ``w_graphrag_caf``.
    """

    registered = "reward:graphrag_pra"
    systems = ("GraphRAG-R1",)

    first: float = 0.2
    decay: float = 0.8
    most: int = 5

    def turn(self, outcome: Outcome) -> float:
        if not isinstance(outcome.action, (Search, Call)) or not outcome.calls:
            return 0.0
        now = len(outcome.turns) - 1
        made = [lookup for lookup in lookups(outcome) if not lookup.repeats]
        before = sum(lookup.turn < now for lookup in made)
        paid = range(before, min(len(made), self.most))
        return self.first * sum(self.decay**j for j in paid)


@dataclass(frozen=True)
class GraphRagCaf:
    """Discount the answer's F1 by the retrievals n it took: ``scale`` · F1 · e^(-``cost`` n).

    Cost-aware F1 (Yu et al., GraphRAG-R1, arXiv 2507.23581); the paper's ``scale`` and
    ``cost`` were not read, 1 and .1 are ours.
    """

    registered = "reward:graphrag_caf"
    systems = ("GraphRAG-R1",)

    scale: float = 1.0
    cost: float = 0.1

    def final(self, outcome: Outcome) -> float:
        return self.scale * outcome.f1 * math.exp(-self.cost * outcome.searches)
