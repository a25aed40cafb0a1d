"""RLGF's rollout: a guide rolls in, and the policy goes on from where it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from searchgym import Episode, run_episodes
from searchgym.rl import (
    Demonstrations,
    Group,
    Played,
    RolloutStrategy,
    TaskPlan,
    Workers,
    played,
    start,
)
from searchgym.seeding import stream

from .pav import recall

GUIDE = "guide-"
"""Prefix of the number in the id of a guide's episode."""


class Guided(RolloutStrategy):
    """``size`` episodes per task, a ``share`` of which a guide begins: it plays one episode to its
    end, and each of them goes on from before one of its turns, the first excepted, drawn at random
    (PPO++ of RLGF, Chang et al., arXiv 2306.11816: the initial states are a mixture of the task's
    and the guide's). So the policy meets states that it would seldom reach by itself.

    The guide's episode is the group's baseline, which is never trained on, and no other row has its
    tokens under the loss. Episodes that begin in different states have different chances: compare
    them by a critic, or by ``branches`` and ``segment_values``, and not by a group's mean. Where a
    guide answers at once there is nothing to go on from, and all begin with the question.

    Args:
        size: Episodes of a group, without the guide's.
        share: Share of them that the guide begins, rounded to whole episodes (ours: half).
        guide: As the expert of :class:`~searchgym.rl.rollouts.demonstrations.Demonstrations`;
            default: the oracle of the setting's tasks.
    """

    registered = "rollout:guided"
    provides = frozenset({"baseline"})
    unsampled = True

    def __init__(self, size: int = 8, share: float = 0.5, guide: Any = None) -> None:
        if size < 1 or not 0 <= share <= 1:
            raise ValueError(f"size is at least 1 and share in [0, 1], got {size} and {share}")
        self.size, self.begun = size, round(size * share)
        self.guide = Demonstrations(guide)
        self.provides = type(self).provides

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        policy = workers.policy
        guides = [g.members[0] for g in self.guide.play(plans, workers, GUIDE)]
        groups = [self._start(*pair, workers) for pair in zip(plans, guides, strict=True)]
        everyone = [e for episodes in groups for e in episodes]
        run_episodes(everyone, policy, workers.env.toolbox, batch=max(len(everyone), 1))
        made = [
            Group(
                plan,
                (*self._members(episodes, workers), replace(guide, purpose="baseline", usage={})),
            )
            for plan, guide, episodes in zip(plans, guides, groups, strict=True)
        ]
        policy.forget([guide.episode.config.episode_id for guide in guides])
        return made

    def _start(self, plan: TaskPlan, guide: Played, workers: Workers) -> list[Episode]:
        alone = self.size - self.begun
        episodes = [start(plan, workers, str(i), i) for i in range(alone)]
        turns = len(guide.episode.turns)
        if self.begun and turns > 1:
            recall(guide, workers)
            at = stream(plan.key, "rolls in").integers(1, turns, self.begun)
            return [*episodes, *(guide.episode.fork(at=int(n), branch=k)
                                 for k, n in enumerate(at, start=1))]  # fmt: skip
        return [*episodes, *(start(plan, workers, str(i), i) for i in range(alone, self.size))]

    def _members(self, episodes: Sequence[Episode], workers: Workers) -> list[Played]:
        """The guide's place is the last."""
        return [
            played(e, workers.policy, parent=None if e.parent is None else self.size)
            for e in episodes
        ]
