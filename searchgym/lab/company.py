"""Company of a policy on the learning bench: the engine, rates and roles that a method asks for,
and the policy's play without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ..core.episode import Episode
from ..core.rollout import run_episodes
from ..envs.search import SearchEnv
from ..rl.recipe import Recipe
from ..rl.roles import roles_asked
from ..rl.slots.records import SHARED
from ..seeding import derive
from ..types import Agent

NOISY_ENGINE: Mapping[str, Any] = {"name": "degraded", "engine": "bm25"}
"""Engine of methods whose members play under noise, of which the bench's own has none."""
EACH = 4
"""Episodes of a question by which a policy is measured alone."""


def keywords_of(recipe: Recipe) -> dict[str, Any]:
    """Keywords by which the environment in which a recipe trains differs from the bench's."""
    return {"engine": dict(NOISY_ENGINE)} if recipe.needs("noise") else {}


def with_rate(table: Mapping[str, Any], lr: float) -> dict[str, Any]:
    """A recipe's table whose signals' own models learn at ``lr``, where it says a rate for them."""
    signals = table.get("signal", ())
    entries = [signals] if isinstance(signals, str | Mapping) else list(signals)
    made = [{**e, "lr": lr} if isinstance(e, Mapping) and "lr" in e else e for e in entries]
    return {**table, "signal": made} if made != entries else dict(table)


def roles_of(recipe: Recipe, start: Agent) -> dict[str, Agent | str]:
    """Players of a recipe's roles: the agent at its ``start`` of those that it does not train, the
    policy itself of all others."""
    frozen: frozenset[str] = getattr(recipe.rollout, "frozen", frozenset())
    return {role: start if role in frozen else SHARED for role in roles_asked(recipe)}


def play(env: SearchEnv, agent: Agent, seed: int, each: int, name: str) -> list[Episode]:
    """Let an agent play every question of an environment ``each`` times; ``name`` begins the
    episodes' ids."""
    episodes = [
        env.start(derive(seed, task.id, i), task=task, episode_id=f"{name}.{task.id}.{i}")
        for task in env.tasks for i in range(each)
    ]  # fmt: skip
    return run_episodes(episodes, agent, env.toolbox)


def em_of(episodes: Sequence[Episode]) -> float:
    """Mean exact match of finished episodes."""
    return fmean(e.parts["em"] if e.parts else 0.0 for e in episodes)


def alone(env: SearchEnv, agent: Agent, seed: int) -> tuple[float, float]:
    """Exact match and searches of an agent that plays every question ``EACH`` times."""
    episodes = play(env, agent, seed, EACH, f"alone{seed}")
    return em_of(episodes), fmean(float(e.queries) for e in episodes)
