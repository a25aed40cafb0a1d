"""CoSearch's reward of a ranking: its own quality, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...core.episode import Episode
from ...scoring.evidence import ndcg_at
from ..rollouts.ranked import RANKER, order_of
from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals
from .served import outcomes_served


class RankingReward(Slot):
    """R of a ``"ranker"``: ``quality`` · nDCG@keep + ``outcome`` · the outcome of the episode in
    which it acted - ``malformed`` if its order was none, whose nDCG is that of the engine's order.
    Gold passages have grade 1; where none is among those found, nDCG is 0 (CoSearch, arXiv
    2604.17555: ranking quality and trajectory outcome; the weights are ours).
    """

    registered = "ranking"

    def __init__(self, quality: float = 0.5, outcome: float = 0.5, malformed: float = 0.1) -> None:
        self.quality, self.outcome = float(quality), float(outcome)
        self.malformed = float(malformed)

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        outcome, of = np.array(rewards.outcome), outcomes_served(group, rewards)
        for i, member in enumerate(group.members):
            if member.role == RANKER and not np.isnan(outcome[i]):
                ranked = self.quality * ndcg(member.episode) + self.outcome * of[i]
                outcome[i] = ranked - self.malformed * (order_of(member.episode) is None)
        return Rewards(outcome, rewards.turns)


def ndcg(episode: Episode) -> float:
    """nDCG of the order that a ranker's episode led to, cut after the passages that are kept."""
    task = episode.config.task
    ids, keep = task.meta["passages"], int(task.meta["keep"])
    order = order_of(episode) or range(min(keep, len(ids)))
    value = ndcg_at([ids[i] for i in order], dict.fromkeys(task.evidence, 1), keep)
    return 0.0 if math.isnan(value) else value
