"""Independent episodes of the same task: what most methods sample."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.episode import Episode
from ...core.rollout import run_episodes
from ...policies.causal_lm import CausalLMPolicy
from ...seeding import derive
from ...types import TurnRequest
from ..slots.protocols import RolloutStrategy
from ..slots.records import Group, Played, Purpose, TaskPlan, Workers

TWIN = "greedy"
"""Suffix that replaces the member's number in the id of a greedy twin."""


class Chains(RolloutStrategy):
    """``size`` episodes per task, all groups together in one batch, turn by turn.

    Args:
        size: Episodes of a group.
        greedy_twin: One more, played at temperature 0 and not trained on: ReMax's baseline.
    """

    registered = "chains"

    def __init__(self, size: int = 8, *, greedy_twin: bool = False) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size, self.greedy_twin = size, greedy_twin
        self.provides = frozenset({"baseline"} if greedy_twin else ())

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        episodes = [self._start(plan, workers) for plan in plans]
        everyone = [e for group in episodes for e in group]
        agent = _Mixed(workers.policy) if self.greedy_twin else workers.policy
        run_episodes(everyone, agent, workers.env.toolbox, batch=max(len(everyone), 1))
        return [
            Group(plan, tuple(played(e, workers.policy) for e in group))
            for plan, group in zip(plans, episodes, strict=True)
        ]

    def _start(self, plan: TaskPlan, workers: Workers) -> list[Episode]:
        names = [str(i) for i in range(self.size)] + [TWIN] * self.greedy_twin
        return [start(plan, workers, name, i) for i, name in enumerate(names)]


def start(plan: TaskPlan, workers: Workers, name: str, member: int) -> Episode:
    """A member's episode."""
    key = derive(plan.key, "episode", member)
    return workers.env.start(
        key, task=plan.task, params=plan.params, episode_id=f"{plan.name}.{name}"
    )


def played(
    episode: Episode, policy: CausalLMPolicy, *, parent: int | None = None, siblings: int = 0
) -> Played:
    """Collect an episode's rows and usage, those of a branch from where it left its ``parent`` on;
    the policy then forgets it."""
    name = episode.config.episode_id
    purpose: Purpose = "baseline" if name.endswith(f".{TWIN}") else "train"
    since = 0 if parent is None or episode.parent is None else episode.parent[1]
    rows = tuple(policy.rows(episode, since=since))
    usage = policy.episode_usage(name, since=since)
    policy.forget([name])
    return Played(episode, rows, purpose, parent, siblings, usage)


class _Mixed:
    def __init__(self, policy: CausalLMPolicy) -> None:
        self.policy = policy

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        texts = [""] * len(requests)
        for greedy in (False, True):
            where = [
                i for i, r in enumerate(requests) if r.episode_id.endswith(f".{TWIN}") == greedy
            ]
            if not where:
                continue
            sampling = self.policy.sampling
            if greedy:
                sampling = sampling._replace(temperature=0.0)
            completions = self.policy.sample([requests[i] for i in where], sampling)
            for i, completion in zip(where, completions, strict=True):
                texts[i] = completion.text
        return texts
