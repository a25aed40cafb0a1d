"""IKEA's knowledge-boundary reward."""

from __future__ import annotations

import re
from dataclasses import dataclass

from searchgym import Search
from searchgym.rewards import Outcome, well_formed

_PSEUDO_TAG = re.compile(r"[(\[]\s*+(?:/\s*+)?+(?:think|search|answer|information|context)\b", re.I)
"""Tags in round or square brackets, with which a policy writes results of its own."""


@dataclass(frozen=True)
class Ikea:
    """Pay a right answer more the fewer searches it took, a wrong one a little for having searched.

    Right: 1 + ``bonus`` · max(0, 1 - n / ``most``) after n searches (1.6, 1.4, 1.2, 1). Wrong:
    ``tried`` if any search was made, else 0. A turn that is no action, a missing answer or tags in
    other brackets: ``malformed`` (Huang et al., IKEA, arXiv 2505.07596, equations of R_KB+ and
    R_KB-; constants of the released code).
    """

    registered = "reward:ikea"
    systems = ("IKEA",)

    bonus: float = 0.6
    most: int = 3
    tried: float = 0.05
    malformed: float = -1.0

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome) or any(_PSEUDO_TAG.search(t.text) for t in outcome.turns):
            return self.malformed
        searches = sum(len(t.calls) for t in outcome.turns if isinstance(t.action, Search))
        if outcome.em == 1.0:
            return 1.0 + self.bonus * max(0.0, 1.0 - searches / self.most)
        return self.tried if searches else 0.0
