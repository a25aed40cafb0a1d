"""SAAS: half of each group may not search, and shows which searches were superfluous."""

from __future__ import annotations

import numpy as np

from searchgym import Episode
from searchgym.rl import (
    Chains,
    Coef,
    Group,
    Played,
    Rewards,
    RewardTransform,
    Signals,
    TaskPlan,
    Workers,
)
from searchgym.seeding import derive


class Saas(RewardTransform):
    """Charges right members for searching beyond what their group shows to be needed.

    A question is easy if at least ``easy`` closed members are right: right members lose ``cost`` ·
    searches. It is middling if any other member is: right members lose ``cost`` · (searches beyond
    the fewest of a right one that may search). Otherwise it is hard and nobody loses. Members that
    repeat a query lose ``repeat`` (SAAS, arXiv 2605.29796; released code, whose further flag, a
    penalty on repetitive text, is left out). Needs the rollout ``half_closed``.
    """

    registered = "outcome:saas"
    requires = frozenset({"em", "searches"})

    def __init__(self, cost: float = 0.05, easy: int = 2, repeat: float = 0.1) -> None:
        self.cost, self.easy, self.repeat = float(cost), easy, float(repeat)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        closed = np.array([closed_book(member) for member in group.members])
        right, searches = signals["em"] == 1.0, signals["searches"]
        needed = np.inf  # nobody searched too much
        if (right & closed).sum() >= self.easy:
            needed = 0.0
        elif (right & ~closed).any():
            needed = searches[right & ~closed].min()
        spare = np.where(right, np.maximum(np.nan_to_num(searches) - needed, 0.0), 0.0)
        repeated = np.array([_repeats(member) for member in group.members])
        return Rewards(rewards.outcome - self.cost * spare - self.repeat * repeated, rewards.turns)


def _repeats(member: Played) -> bool:
    """Check whether a member ran the same query twice, up to case and blanks."""
    asked = [
        " ".join(str(call.args.get("query", "")).lower().split())
        for turn in member.episode.turns for call in turn.calls if call.tool == "search"
    ]  # fmt: skip
    return len(set(asked)) < len(asked)


class HalfClosed(Chains):
    """Chains whose first ``closed`` members are played with searching disabled (SAAS, arXiv
    2605.29796: 4 of 8). A search of theirs is an invalid action, and they are trained on, too.

    Args:
        size: Episodes of a group.
        closed: Number of them without search; at least one of either kind.
    """

    registered = "rollout:half_closed"

    def __init__(self, size: int = 8, closed: int = 4) -> None:
        if not 0 < closed < size:
            raise ValueError(f"closed must be between 1 and size - 1 = {size - 1}, got {closed}")
        super().__init__(size)
        self.closed = closed

    def _start(self, plan: TaskPlan, workers: Workers) -> list[Episode]:
        return [
            workers.env.start(
                derive(plan.key, "episode", i), task=plan.task, params=plan.params,
                search_enabled=False if i < self.closed else None, episode_id=f"{plan.name}.{i}",
            )
            for i in range(self.size)
        ]  # fmt: skip


def closed_book(member: Played) -> bool:
    """Check whether a member was played with searching disabled."""
    return not member.episode.config.search_enabled
