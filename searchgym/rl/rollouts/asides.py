"""Asides: episodes of one turn in which another role acts within the policy's episode.

A ranker orders what a search has found, a refiner judges what was played. What it is asked is the
question of an episode of its own, what it writes is its answer, and both are in the dialect of the
environment, so that the same weights can play either role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.episode import Episode
from ...core.rollout import run_episodes
from ...core.rules import EpisodeConfig, Rules
from ...tools.base import Toolbox
from ...types import Failure, Task
from ..slots.records import Played, Workers


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
    policy = workers.policy
    played = []
    for episode, whom, number in zip(episodes, serves, siblings, strict=True):
        name = episode.config.episode_id
        rows, usage = tuple(policy.rows(episode)), policy.episode_usage(name)
        policy.forget([name])
        played.append(Played(episode, rows, siblings=number, usage=usage, role=role, serves=whom))
    return played
