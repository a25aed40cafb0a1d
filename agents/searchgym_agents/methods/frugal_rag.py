"""FrugalRAG's reward of stopping in time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from searchgym.rewards import Outcome, new_evidence


@dataclass(frozen=True)
class FrugalRag:
    """Pay an episode that stops right after the search which completed its evidence.

    With h searching turns, the earliest h* of them by which the final recall was reached (none if
    it is below ``baseline``) and a budget of B = ``budget``: 2 + 2 h*/B for h = h*, clipped
    log((1 - x) / x) of x = (h - h*)/B (in [-2, 1.9]) for h > h*, and of x = \\|h - B\\|/B (in
    [-2, 0]) without h* (Java et al., FrugalRAG, arXiv 2507.07634; released ``train_grpo.py``). The
    baseline is .6 where the released code takes a question's own from its logs; its term of format
    is left to other parts.
    """

    registered = "reward:frugal_rag"
    systems = ("FrugalRAG",)

    budget: int = 6
    baseline: float = 0.6

    def final(self, outcome: Outcome) -> float:
        new_counts = [n for n, turn in zip(new_evidence(outcome), outcome.turns, strict=True)
                      if turn.calls]  # fmt: skip
        total = sum(new_counts)
        best = None
        if outcome.evidence_total and total / outcome.evidence_total >= self.baseline:
            best = max((i for i, n in enumerate(new_counts, 1) if n), default=0)
        return frugal(len(new_counts), best, self.budget)


def frugal(h: int, best: int | None, budget: int) -> float:
    """Reward of ``h`` searches where ``best`` would have done (None: no number would)."""
    if best is None:
        return min(max(_log_odds(abs(h - budget) / budget), -2.0), 0.0)
    if h == best:
        return 2.0 + 2.0 * best / budget
    return min(max(_log_odds((h - best) / budget), -2.0), 1.9) if h > best else 0.0


def _log_odds(x: float) -> float:
    """log((1 - x) / x), x kept off 0 and 1."""
    x = min(max(x, 1e-6), 1.0 - 1e-6)
    return math.log((1.0 - x) / x)
