"""HyperEyes' TRACE: a bonus for needing no more turns and queries than the best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from searchgym.rl import Coef, Floats, Group, Rewards, RewardTransform, Signals

Key = tuple[int, int]
"""Searching turns and queries of a member, or of a reference."""


class SearchTrace(RewardTransform):
    """Pays the answer, and ranks right members by their searching turns and queries.

    1 for a right answer, 0 for a wrong one, ``unanswered`` for none; and a bonus. Right members
    within the question's reference in both numbers get ``best`` down to ``good``, evenly over their
    different numbers; other right ones ``fair`` down to ``worst``; right ones that searched nothing
    0. Wrong ones with fewer turns than the reference, or more than 1.5 times as many, get ``worst``
    (HyperEyes, arXiv 2605.07177, TRACE; released reward). A question's reference is the right
    episode that searched in the fewest turns, and of these with the fewest queries, so far; both
    its numbers are that episode's. The released code keeps such a record, but pays by the numbers
    of a demonstration, which stay; here it begins at the task's number of hops.
    """

    registered = "outcome:trace"
    requires = frozenset({"em"})

    def __init__(
        self,
        best: float = 0.2,
        good: float = 0.05,
        fair: float = -0.02,
        worst: float = -0.1,
        unanswered: float = -0.5,
    ) -> None:
        self.best, self.good, self.fair, self.worst = best, good, fair, worst
        self.unanswered = float(unanswered)
        self.references: dict[str, Key] = {}

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        task = group.plan.task
        hops = max(1, task.hops)
        reference = self.references.get(task.id, (hops, hops))
        right = signals["em"] == 1.0
        answered = np.array([m.episode.end == "answered" for m in group.members])
        keys = [(sum(bool(t.calls) for t in m.episode.turns),
                 sum(len(t.calls) for t in m.episode.turns)) for m in group.members]  # fmt: skip
        base = np.where(right, 1.0, np.where(answered, 0.0, self.unanswered))
        bonus = np.where(answered, self.bonus(keys, right.tolist(), reference), 0.0)
        found = [key for key, ok in zip(keys, right, strict=True) if ok and key[0]]
        self.references[task.id] = min([reference, *found])
        return Rewards(rewards.outcome + base + bonus, rewards.turns)

    def bonus(self, keys: Sequence[Key], right: Sequence[bool], reference: Key) -> Floats:
        """(M,) the bonus of answered members with these numbers."""
        turns, queries = reference
        searched = [key for key, ok in zip(keys, right, strict=True) if ok and key[0]]
        inside = sorted({k for k in searched if k[0] <= turns and k[1] <= queries})
        outside = sorted(set(searched) - set(inside))
        values = {
            **dict(zip(inside, np.linspace(self.best, self.good, len(inside)), strict=True)),
            **dict(zip(outside, np.linspace(self.fair, self.worst, len(outside)), strict=True)),
        }
        late = int(1.5 * turns)
        missed = [self.worst if k[0] < turns or k[0] > late else 0.0 for k in keys]
        return np.array([
            values.get(key, 0.0) if ok else miss
            for key, ok, miss in zip(keys, right, missed, strict=True)
        ], dtype=np.float64)  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        return {"references": {task: list(key) for task, key in self.references.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.references = {t: (int(a), int(b)) for t, (a, b) in state["references"].items()}
