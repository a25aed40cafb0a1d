"""Worth of a plan: the answer's score above that of answers which took no plan."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Played, Rewards, Signals


class GainReward(Slot):
    """R = S - max(S_no search, S_naive RAG) + ``process`` · u / n - ``cost`` · q, of an episode in
    which u of the n turns that searched showed a gold passage for the first time, and q queries
    ran; the group's baselines keep their S (AI-SearchPlanner, arXiv 2508.20368: improvement over
    baselines, rationality of the plan, cost; the exact form was not read, this one is ours).

    Without baselines that can be scored nothing is subtracted.

    Args:
        cost: Of a query; 0, .02 and .05 trace the front of score and calls.
        process: Weight of the turns' use, which the world knows and the paper asks a judge for.
    """

    registered = "gain"
    requires = frozenset({"baseline"})

    def __init__(self, cost: float = 0.02, process: float = 0.1) -> None:
        if cost < 0 or process < 0:
            raise ValueError(f"cost and process are at least 0, got {cost}, {process}")
        self.cost, self.process = float(cost), float(process)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        outcome = np.array(rewards.outcome)
        floor = np.array([m.purpose == "baseline" for m in group.members])
        known = outcome[floor & ~np.isnan(outcome)]
        best = float(known.max()) if len(known) else 0.0
        for i, member in enumerate(group.members):
            if not floor[i]:
                outcome[i] += self.process * useful(member) - best
                outcome[i] -= self.cost * member.episode.queries
        return Rewards(outcome, rewards.turns)


def useful(member: Played) -> float:
    """Share of the turns that called a tool which showed a new gold passage; 0 without any."""
    showed = [t.reward_parts.get("evidence", 0.0) > 0 for t in member.episode.turns if t.calls]
    return sum(showed) / len(showed) if showed else 0.0
