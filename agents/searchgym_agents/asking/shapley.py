"""ProMed's Shapley information gain (arXiv 2508.13514): what each told fact adds to certainty.

The certainty of facts S is the probability that someone who knows S and the question answers right:
the share of the things that fit both whose answer is the right one. In a generated world that is
exact; the paper's, a model's confidence, was not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from typing import Any

from searchgym.errors import RewardError
from searchgym.rewards import Outcome

MOST = 8
"""Facts for which the value is exact: 2^8 sets of them."""


def shapley(
    facts: Sequence[str], value: Callable[[Collection[str]], float]
) -> dict[str, float]:  # fmt: skip
    """Shapley value of each fact: φ_i = Σ_{S ∌ i} |S|! (n - |S| - 1)! / n! (v(S ∪ i) - v(S)).

    Their sum is v(all) - v(∅).

    Raises:
        RewardError: more than :data:`MOST` facts.
    """
    n = len(facts)
    if n > MOST:
        raise RewardError(f"Shapley values are exact for at most {MOST} facts, got {n}")
    known = {frozenset(s): value(s) for k in range(n + 1) for s in combinations(facts, k)}
    weights = [factorial(k) * factorial(n - k - 1) / factorial(n) for k in range(n)]
    return {
        fact: sum(
            weights[len(before)] * (known[before | {fact}] - of)
            for before, of in known.items() if fact not in before
        )
        for fact in facts
    }  # fmt: skip


def certainty(
    candidates: Sequence[Mapping[str, Any]], goal: int, facts: Collection[str]
) -> float:  # fmt: skip
    """Probability of the right answer for who knows ``facts`` of the goal: of the candidates that
    agree with it in them, the share whose ``"answer"`` is its."""
    mine = candidates[goal]
    fit = [row for row in candidates if all(row[f] == mine[f] for f in facts)]
    return sum(row["answer"] == mine["answer"] for row in fit) / len(fit)


@dataclass(frozen=True)
class ShapleyGain:
    """Pay each fact that the person told its Shapley value, at the end: in all, the certainty of
    all told facts less that of none (:func:`shapley`, :func:`certainty`).

    Reads ``meta["candidates"]`` and ``meta["goal"]``, as the family ``ambiguous`` writes them; 0
    for other tasks. Questions that are repeated, or about nothing that is known, earn nothing. Use
    it beside the answer's reward: ``{"em": 1, "shapley_gain": 0.2}``.
    """

    registered = "reward:shapley_gain"
    systems = ("ProMed",)

    def final(self, outcome: Outcome) -> float | Mapping[str, float]:
        candidates = outcome.meta.get("candidates")
        told = outcome.tool_states.get("ask_user", {}).get("told", [])
        if not candidates or not told:
            return 0.0
        facts = list(dict.fromkeys(told))[:MOST]
        goal = int(outcome.meta["goal"])
        values = shapley(facts, lambda known: certainty(candidates, goal, known))
        return {fact.replace(".", " "): value for fact, value in values.items()}
