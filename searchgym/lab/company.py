"""What a method of the learning bench asks for besides the policy, and what the policy does alone
where the episodes that it learns from are not its own."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from ..core.rollout import run_episodes
from ..envs.search import SearchEnv
from ..rl.recipe import Recipe
from ..rl.roles import roles_asked
from ..rl.rollouts.noisy import Noisy
from ..rl.slots.records import SHARED
from ..seeding import derive
from ..types import Agent

NOISY_ENGINE: Mapping[str, Any] = {"name": "degraded", "engine": "bm25"}
"""Engine of methods whose members play under noise, of which the bench's own has none."""
EACH = 4
"""Episodes of a question by which a policy is measured alone."""


def keywords_of(recipe: Recipe) -> dict[str, Any]:
    """What is different in the environment in which a recipe trains."""
    return {"engine": dict(NOISY_ENGINE)} if isinstance(recipe.rollout, Noisy) else {}


def with_rate(table: Mapping[str, Any], lr: float) -> dict[str, Any]:
    """A recipe's table whose signals' own models learn at ``lr``, where it says a rate for them."""
    signals = table.get("signal", ())
    entries = [signals] if isinstance(signals, str | Mapping) else list(signals)
    made = [{**e, "lr": lr} if isinstance(e, Mapping) and "lr" in e else e for e in entries]
    return {**table, "signal": made} if made != entries else dict(table)


def roles_of(recipe: Recipe, start: Agent) -> dict[str, Agent | str]:
    """Who plays a recipe's roles: those that it does not train the agent at its ``start``, all
    others the policy itself."""
    frozen: frozenset[str] = getattr(recipe.rollout, "frozen", frozenset())
    return {role: start if role in frozen else SHARED for role in roles_asked(recipe)}


def alone(env: SearchEnv, agent: Agent, seed: int) -> tuple[float, float]:
    """Exact match and searches of an agent that plays every question of an environment ``EACH``
    times."""
    episodes = [
        env.start(derive(seed, task.id, i), task=task, episode_id=f"alone{seed}.{task.id}.{i}")
        for task in env.tasks for i in range(EACH)
    ]  # fmt: skip
    run_episodes(episodes, agent, env.toolbox, batch=len(episodes))
    right = fmean(e.parts["em"] if e.parts else 0.0 for e in episodes)
    return right, fmean(float(e.queries) for e in episodes)
