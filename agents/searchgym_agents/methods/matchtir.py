"""Signal: how well each turn's calls match the gold ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np

from searchgym import Answer, Episode
from searchgym.rl import Floats, OfMembers, Played, part

from .answer_rewards import NamedCall, alike, gold_calls

How = Literal["optimal", "greedy", "transport"]


def similarity(call: NamedCall, gold: NamedCall) -> float:
    """0 for another tool; else (1 + Jaccard of the arguments' names + number of equal values) /
    (2 + number of gold arguments), in [0, 1]."""
    if call.tool != gold.tool:
        return 0.0
    return (1 + alike(call, gold)) / (2 + len(gold.args))


def optimal(table: Floats) -> Floats:
    """(P,) each call's similarity to the gold call that it is matched with; of all one-to-one
    matchings the best (Kuhn-Munkres)."""
    from scipy.optimize import linear_sum_assignment

    made = np.zeros(len(table))
    rows, columns = linear_sum_assignment(-table)
    made[rows] = table[rows, columns]
    return made


def greedy(table: Floats) -> Floats:
    """(P,) the same, best pairs first: the released code."""
    made, left = np.zeros(len(table)), table.copy()
    while left.size and left.max() > 0:
        row, column = np.unravel_index(int(left.argmax()), left.shape)
        made[row] = table[row, column]
        left[row, :] = left[:, column] = 0.0
    return made


def transport(table: Floats, reg: float = 0.1, rounds: int = 200) -> Floats:
    """(P,) Σ_j T_ij S_ij of the entropic transport between calls and gold ones, all of equal
    weight, at cost -S (Sinkhorn). The sum over calls is a mean similarity."""
    calls, gold = table.shape
    kernel = np.exp(table / reg)
    right = np.ones(gold)
    for _ in range(rounds):
        left = 1 / calls / (kernel @ right)
        right = 1 / gold / (kernel.T @ left)
    made: Floats = (left[:, None] * kernel * right * table).sum(1)
    return made


MATCHERS: Mapping[How, Callable[[Floats], Floats]] = {
    "optimal": optimal, "greedy": greedy, "transport": transport,
}  # fmt: skip


class Matching(OfMembers):
    """``turn_matching``: (M, K) the mean over a turn's calls of the similarity to the gold call
    that each is matched with (MatchTIR, arXiv 2601.10712); an answer's turn has the answer's F1,
    another without a call 0.

    Gold calls are ``task.meta["calls"]``, or a search for each gold query; texts are compared up to
    case and blanks.

    Args:
        how: ``"optimal"``, ``"greedy"`` or ``"transport"``.
        unmatched: Score of a call that nothing is left for (released code: 0, or -.5).
    """

    registered = "signal:matching"
    provides = frozenset({"turn_matching"})

    def __init__(self, how: How = "optimal", unmatched: float = 0.0) -> None:
        if how not in get_args(How):
            raise ValueError(f"how is one of {', '.join(get_args(How))}, got {how!r}")
        self.how: How = how
        self.unmatched = float(unmatched)

    def of(self, member: Played) -> list[float]:
        episode: Episode = member.episode
        task = episode.config.task
        gold = gold_calls(task)
        given = [NamedCall(c.tool, c.args) for turn in episode.turns for c in turn.calls]
        scores = np.zeros(len(given))
        if gold and given:
            table = np.array([[similarity(call, wanted) for wanted in gold] for call in given])
            scores = MATCHERS[self.how](table)
            scores[scores <= 0] = self.unmatched
        turn_scores, at = [], 0
        for turn in episode.turns:
            own = scores[at : at + len(turn.calls)]
            at += len(turn.calls)
            if isinstance(turn.action, Answer):
                turn_scores.append(part(member, "f1"))
            else:
                turn_scores.append(float(own.mean()) if len(own) else 0.0)
        return turn_scores
