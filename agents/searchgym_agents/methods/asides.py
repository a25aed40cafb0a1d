"""Asides: episodes of one turn in which another role acts within the policy's episode.

A ranker orders what a search has found, a refiner judges what was played. What it is asked is the
question of an episode of its own, what it writes is its answer, and both are in the dialect of the
environment, so that the same weights can play either role.

Rewards of another role: what came of the episode in which it acted.

Another estimator's advantages within each role: no role is in another's baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from searchgym import Episode, EpisodeConfig, Failure, Rules, Task, run_episodes
from searchgym.rl import (
    POLICY,
    Batch,
    Chains,
    Coef,
    Estimate,
    Floats,
    Group,
    Over,
    Played,
    Reduction,
    Rewards,
    RewardTransform,
    Signals,
    TaskPlan,
    Workers,
)
from searchgym.tools.base import Toolbox


@dataclass(frozen=True, slots=True)
class Aside:
    """Question to another role."""

    name: str
    """Id of its episode."""
    key: int
    """Seed of its episode."""
    question: str
    answer: str
    """Best answer."""
    evidence: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that whoever pays it reads."""


def ask(role: str, asides: Sequence[Aside], workers: Workers) -> list[Episode]:
    """Let a role answer, in one batch; returns the finished episodes, in order.

    Raises:
        CardError: nobody plays the role.
    """
    agent, env = workers.agent(role), workers.env
    rules = Rules(tools=(), dialect=env.rules.dialect, max_turns=1)
    episodes = [
        Episode(
            EpisodeConfig(
                Task(a.name, a.question, (a.answer,), a.evidence, family=role, meta=a.meta),
                rules, a.key, a.name, search_enabled=False,
            )
        )
        for a in asides
    ]  # fmt: skip
    return run_episodes(episodes, agent, Toolbox({}), batch=max(len(episodes), 1))


def failure_of(aside: Episode) -> Failure | None:
    """Failure for which nobody played an aside; None if somebody did."""
    return next((r for r in aside.turns[-1].results if isinstance(r, Failure)), None)


def members(
    role: str,
    episodes: Sequence[Episode],
    serves: Sequence[str],
    siblings: Sequence[int],
    workers: Workers,
) -> list[Played]:
    """Make a role's episodes members of a group, if they are trained on: none of a frozen role but
    those that the infrastructure ended, which are counted and not trained on.

    Args:
        serves: Ids of the episodes in which they acted.
        siblings: Numbers of their sub-groups, below 0, so that none is the policy's own.
    """
    if not workers.trains(role):
        forget = getattr(workers.agent(role), "forget", None)
        if forget is not None:
            forget([e.config.episode_id for e in episodes])
        return [
            Played(e, (), siblings=number, role=role, serves=whom)
            for e, whom, number in zip(episodes, serves, siblings, strict=True)
            if failure_of(e) is not None
        ]
    policy: Any = workers.agent(role)  # in training, and so a policy over a language model
    played = []
    for episode, whom, number in zip(episodes, serves, siblings, strict=True):
        name = episode.config.episode_id
        rows = tuple(replace(row, role=role) for row in policy.rows(episode))
        usage = policy.episode_usage(name)
        policy.forget([name])
        played.append(Played(episode, rows, siblings=number, usage=usage, role=role, serves=whom))
    return played


class Asked(Chains):
    """Chains, and another role that is asked something about each of them once it has ended: the
    base of roles that judge. Its answers are members that serve the episode.

    A subclass names its ``role``, and says by :meth:`aside` what it is asked.
    """

    role = ""

    def __init_subclass__(cls) -> None:
        cls.roles = frozenset({cls.role})

    def aside(self, episode: Episode) -> Aside:
        """What the role is asked about a finished episode, under a name of its own."""
        raise NotImplementedError

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = []
        for group in super().collect(plans, workers):
            sound = [m.episode for m in group.members if not m.broken]
            said = ask(self.role, [self.aside(e) for e in sound], workers)
            names = [e.config.episode_id for e in sound]
            more = members(self.role, said, names, [-1] * len(said), workers)
            groups.append(replace(group, members=(*group.members, *more)))
        return groups


class ServedReward(RewardTransform):
    """Pays each member of another role ``weight`` times the outcome so far of the episode in which
    it acted (``Played.serves``), in place of what its own short episode earned.

    Args:
        role: Of those members.
    """

    registered = "outcome:served"

    def __init__(self, role: str, weight: float = 1.0) -> None:
        if role == POLICY:
            raise ValueError(f"role is another than the policy's, got {role!r}")
        self.role, self.weight = role, float(weight)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        outcome, of = np.array(rewards.outcome), outcomes_served(group, rewards)
        for i, member in enumerate(group.members):
            if member.role == self.role and not np.isnan(outcome[i]):
                outcome[i] = self.weight * of[i]
        return Rewards(outcome, rewards.turns)


def outcomes_served(group: Group, rewards: Rewards) -> Floats:
    """(M,) outcome of the episode in which each member acted; NaN for one that acted in none of the
    group's."""
    of = {m.episode.config.episode_id: i for i, m in enumerate(group.members)}
    places = [of.get(m.serves) if m.serves else None for m in group.members]
    return np.array([np.nan if i is None else rewards.outcome[i] for i in places])


class ByRole(Over):
    """``base``, where the policy's members are compared with each other, and those of another role
    with those of the same role and sub-group alone (``Played.siblings``): CoSearch's rankings of
    similar queries (arXiv 2604.17555). With the policy alone this is ``base``.
    """

    registered = "advantage:by_role"
    reductions = (Reduction({}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo") -> None:
        super().__init__(base)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        part = replace(batch, group=role_groups(batch))
        return self.base.estimate(part, coef)


def role_groups(batch: Batch) -> torch.Tensor:
    """(N,) numbers of groups in which no two roles are, nor two sub-groups of another role."""
    siblings = batch.group if batch.siblings is None else batch.siblings
    numbers: dict[tuple[int, str, int], int] = {}
    return torch.tensor(
        [
            numbers.setdefault((g, m.role, -1 if m.role == POLICY else s), len(numbers))
            for g, m, s in zip(batch.group.tolist(), batch.members, siblings.tolist(), strict=True)
        ]
    )
