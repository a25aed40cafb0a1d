"""Notes that outlast an episode: members of a group read what the best one before them wrote."""

from __future__ import annotations

from collections.abc import Sequence

from searchgym import Episode
from searchgym.core import run_episodes
from searchgym.rl import Chains, Group, TaskPlan, Workers
from searchgym.rl.rollouts.chains import played, start
from searchgym.tools import notes_of, with_notes


class GroupMemory(Chains):
    """Plays a group's members one after the other, each with the notes that the best one before it
    left (of equal ones the latest), for environments with the tool ``memory``.

    After ExpeL (Zhao et al., arXiv 2308.10144), whose insights a language model draws from all
    episodes so far; here the agent's own notes go on. The members of a round of all groups are
    played in one batch.
    """

    registered = "rollout:group_memory"

    def __init__(self, size: int = 8) -> None:
        super().__init__(size)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        rounds: list[list[Episode]] = []
        left: list[tuple[float, list[str]]] = [(float("-inf"), notes_of(p.task)) for p in plans]
        for member in range(self.size):
            noted = [
                plan._replace(task=with_notes(plan.task, notes))
                for plan, (_, notes) in zip(plans, left, strict=True)
            ]
            episodes = [start(plan, workers, str(member), member) for plan in noted]
            run_episodes(episodes, workers.policy, workers.env.toolbox, batch=max(len(episodes), 1))
            for place, episode in enumerate(episodes):
                earned = sum(turn.reward for turn in episode.turns)
                if earned >= left[place][0]:
                    left[place] = earned, episode.tool_states.get("memory", left[place][1])
            rounds.append(episodes)
        return [
            Group(plan, tuple(played(episodes[i], workers.policy) for episodes in rounds))
            for i, plan in enumerate(plans)
        ]
