"""VPO: sets of answers are paid for the best of them under every weighting of several rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from searchgym.rl import (
    Batch,
    Chains,
    Coef,
    Estimate,
    Floats,
    Group,
    Over,
    Rewards,
    RewardTransform,
    Signals,
    TaskPlan,
    Workers,
)
from searchgym.rl.ops import spread
from searchgym.seeding import stream


class Sets(Chains):
    """Chains, every ``per`` of which are one set (``Played.siblings``).

    Args:
        size: Episodes of a group, a multiple of ``per``.
    """

    registered = "rollout:sets"

    def __init__(self, size: int = 8, per: int = 2) -> None:
        super().__init__(size)
        if per < 1 or size % per:
            raise ValueError(f"size is a multiple of per, at least 1; got {size} and {per}")
        self.per = per

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        return [
            replace(g, members=tuple(
                replace(m, siblings=i // self.per) for i, m in enumerate(g.members)
            ))
            for g in super().collect(plans, workers)
        ]  # fmt: skip


def set_reward(vectors: Floats, weights: Floats) -> float:
    """Mean over (D, K) weightings of the best of (m, K) rewards: mean_w max_y w · r(y)."""
    return float((weights @ vectors.T).max(1).mean())


class VectorReward(RewardTransform):
    """Replaces each outcome by that of its set: mean over w ~ Dirichlet of max_y w · r(y), r the
    signals ``parts``. All sets of a group are paid by the same w (VPO, arXiv 2605.22817; read in
    others' descriptions). Members that cannot be scored count in no set.

    Args:
        parts: Signals, each a reward of its own.
        draws: Number of w.
        alpha: Concentration of the Dirichlet distribution, the same for all parts.
    """

    registered = "outcome:vpo"

    def __init__(
        self, parts: Sequence[str] = ("em", "evidence_recall"), draws: int = 256, alpha: float = 1.0
    ) -> None:
        if not parts or draws < 1 or alpha <= 0:
            raise ValueError(f"parts, draws ≥ 1 and alpha > 0; got {parts}, {draws}, {alpha}")
        self.parts, self.draws, self.alpha = tuple(parts), draws, float(alpha)
        self.requires = frozenset(self.parts)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        draw = stream(group.plan.key, "vpo")
        weights = draw.dirichlet(np.full(len(self.parts), self.alpha), size=self.draws)
        vectors = np.nan_to_num(np.stack([signals[name] for name in self.parts], 1))
        outcome, sets = np.array(rewards.outcome), np.array([m.siblings for m in group.members])
        known = ~np.isnan(outcome)
        for number in sorted(set(sets[known].tolist())):
            own = known & (sets == number)
            outcome[own] = set_reward(vectors[own], weights)
        return Rewards(outcome, rewards.turns)


class OverSets(Over):
    """``base``, which compares sets: each counts once, and its members share its advantage."""

    registered = "advantage:vpo"

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        own = torch.arange(len(batch)) if batch.siblings is None else batch.siblings
        sets = list(zip(batch.group.tolist(), own.tolist(), strict=True))
        first = {key: i for i, key in reversed(list(enumerate(sets)))}
        places = sorted(first.values())
        made = self.base.estimate(batch.take(places), coef)
        at = torch.tensor([places.index(first[key]) for key in sets])
        adv = made.adv if made.adv.ndim == 1 else made.adv.amax(1)
        return Estimate(spread(adv[at], batch.mask))
