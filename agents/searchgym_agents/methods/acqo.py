"""ACQO: a turn's queries are paid for the best subset of them first, then for all as fused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from searchgym import ToolResult
from searchgym.engines.hybrid import rank_score_fusion
from searchgym.rl import Coef, Group, Rewards, RewardTransform, Scored, Signals, UniformTasks
from searchgym.scoring.evidence import ndcg_at
from searchgym.types import Ranking


def quality(rankings: Sequence[Ranking], gold: Sequence[str], k: int = 10) -> float:
    """nDCG@k of the rank-score fusion of some rankings; 0 for none."""
    if not rankings or not gold:
        return 0.0
    fused = rank_score_fusion(rankings, k, mean="harmonic")
    return float(ndcg_at([hit.passage.id for hit in fused], dict.fromkeys(gold, 1), k))


def optimistic(rankings: Sequence[Ranking], gold: Sequence[str], k: int = 10) -> float:
    """The best quality that any subset of the rankings has."""
    subsets = (s for n in range(1, len(rankings) + 1) for s in combinations(rankings, n))
    return max((quality(subset, gold, k) for subset in subsets), default=0.0)


def rankings_of(episode: Any, most: int) -> list[Ranking]:
    """What the first ``most`` queries of an episode found."""
    found = [
        result.hits
        for turn in episode.turns
        for call, result in zip(turn.calls, turn.results, strict=True)
        if call.tool == "search" and isinstance(result, ToolResult)
    ]
    return found[:most]


class FusedReward(RewardTransform):
    """Replaces outcomes by the quality of what an episode's queries found: in the first stage that
    of their best subset, in the second that of all of them fused (ACQO, arXiv 2601.21208; read in
    others' descriptions). ``coef["fused"]`` is 0 in the first stage and 1 in the second.

    Args:
        most: Queries that count; the source has at most three.
        k: Passages of the fused ranking that count.
    """

    registered = "outcome:fused"
    reads = frozenset({"fused"})

    def __init__(self, most: int = 3, k: int = 10) -> None:
        if not 1 <= most <= 6 or k < 1:
            raise ValueError(f"most is 1 to 6 and k at least 1, got {most} and {k}")
        self.most, self.k = most, k

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        second = coef.get("fused", 0.0) >= 0.5
        gold = group.plan.task.evidence
        paid = [
            (quality if second else optimistic)(rankings_of(m.episode, self.most), gold, self.k)
            for m in group.members
        ]
        return Rewards(np.where(np.isnan(rewards.outcome), np.nan, paid), rewards.turns)


class HardTasks(UniformTasks):
    """Uniform tasks; from step ``after`` on, those are left out whose mean reward was at least
    ``solved`` when they were last played before (ACQO's second stage: questions that are hard even
    with the best subset; both numbers are ours). If none is left, all are played.
    """

    registered = "data:hard"
    remembers = ("known",)

    def __init__(self, after: int = 100, solved: float = 0.5) -> None:
        super().__init__()
        self.after, self.solved = after, float(solved)
        self.known: dict[str, float] = {}
        self.step = 0

    def plan(
        self, tasks: Sequence[Any], count: int, step: int, seed: int, env: Any = None
    ) -> list[Any]:
        self.step = step
        if step >= self.after:
            hard = [t for t in tasks if self.known.get(t.id, 0.0) < self.solved]
            tasks = hard or tasks
        return super().plan(tasks, count, step, seed, env)

    def observe(self, scored: Scored) -> None:
        total = scored.rewards.total[scored.training]
        if self.step < self.after and len(total) and not np.isnan(total).all():
            self.known[scored.group.plan.task.id] = float(np.nanmean(total))
