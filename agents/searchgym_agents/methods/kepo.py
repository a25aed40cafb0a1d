"""KEPO's rollout: groups without a success are given some that a hint has brought about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from searchgym import Episode, run_episodes
from searchgym.rl import (
    Chains,
    Group,
    Played,
    Source,
    TaskPlan,
    WithHints,
    Workers,
    checked_source,
    hint_of,
    played,
    start,
    total,
)

HINTED = "hint"
"""Prefix of a hinted member's number in its episode's id."""


class Hinted(Chains):
    """Chains; where none of a group reaches ``solved``, up to ``tries`` more are played with a hint
    after the question, and those that reach it take the places of the group's last members
    (KEPO's hint-conditioned rejection sampling; at least one member stays as it was).

    The hint is read when such an episode is played and is not in its rows: what is trained is the
    policy without a hint, on texts that it wrote with one. Such members are ``expert``, and their
    sampling log-probabilities are those of the hinted prompt.

    Args:
        size: Members of a group.
        tries: Hinted episodes of such a group.
        hint: ``"queries"``: the task's gold queries, if it has some; ``"answer"``: its answer.
        solved: Return of a success.
    """

    registered = "rollout:hinted"
    adds = frozenset({"expert"})

    def __init__(
        self, size: int = 8, tries: int = 4, hint: Source = "queries", solved: float = 1.0
    ) -> None:
        if size < 2 or tries < 1:
            raise ValueError(f"size must be at least 2 and tries at least 1, got {size}, {tries}")
        super().__init__(size)
        self.tries, self.solved = tries, float(solved)
        self.hint: Source = checked_source(hint)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = super().collect(plans, workers)
        asked: dict[int, list[Episode]] = {}
        hints: dict[str, str] = {}
        for k, group in enumerate(groups):
            text = hint_of(group.plan.task, self.hint)
            if not text or any(total(m) >= self.solved for m in group.members):
                continue
            asked[k] = [
                start(group.plan, workers, f"{HINTED}{i}", self.size + i) for i in range(self.tries)
            ]
            hints |= {e.config.episode_id: text for e in asked[k]}
        everyone = [e for episodes in asked.values() for e in episodes]
        agent = WithHints(workers.policy, hints)
        run_episodes(everyone, agent, workers.env.toolbox, batch=max(len(everyone), 1))
        for k, episodes in asked.items():
            groups[k] = self._mixed(groups[k], [played(e, workers.policy) for e in episodes])
        return groups

    def _mixed(self, group: Group, hinted: Sequence[Played]) -> Group:
        experts = [replace(m, purpose="expert") for m in hinted if total(m) >= self.solved]
        experts = experts[: self.size - 1]
        return replace(group, members=(*group.members[: self.size - len(experts)], *experts))
