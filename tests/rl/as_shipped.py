"""Recipes as they are shipped, each with a small trainer of its own."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch

from searchgym.envs import SearchEnv
from searchgym.rl.critics import make_critic
from searchgym.rl.diagnostics import IdleOptionWarning
from searchgym.rl.recipe import Recipe
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl import lookup

STEPS = 2


@cache
def env() -> SearchEnv:
    """Boxes again, with room for several searches, which cost something: episodes differ in length,
    turns, searches and reward."""
    return SearchEnv(
        corpus=lookup.CORPUS, tasks=[lookup._task(box) for box in range(12)],
        engine=lookup.BoxEngine(), dialect="plain", k=1, max_turns=3,
        reward={"em": 1.0, "evidence": 0.3, "search": -0.05, "invalid": -0.1},
    )  # fmt: skip


def trainer(table: Any, **changes: Any) -> Trainer:
    """From one start, one seed and one learning rate; all else is the recipe's."""
    recipe = Recipe.of(table)
    lm, _ = lookup.player(0, reference=recipe.needs("ref_logp"), temperature=1.6)
    where = {name: changes.pop(name, None) for name in ("out", "processes", "rollouts")}
    teacher = lookup.player(1)[0] if recipe.needs("teacher_logp") else None
    critic = make_critic({**recipe.critic, "lr": 1e-3}, lm) if recipe.needs("value") else None
    given = {"steps": STEPS, "tasks": 3, "lr": 1e-3, "seed": 3, **changes}
    config = TrainConfig.of(recipe, **given)
    policy = lm.policy("bare", sampling=lookup.SAMPLING, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdleOptionWarning)  # no episode here is long
        return Trainer(
            env(), lm, recipe, config, policy=policy, teacher=teacher, critic=critic,
            roles=lookup.roles_of(recipe), **where,
        )  # fmt: skip


def weights(run: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.lm.parameters()])


@cache
def trained(name: str) -> tuple[torch.Tensor, list[dict[str, float]]]:
    """Weights and metrics of a recipe's training."""
    run = trainer(name)
    curve = list(run.train())
    return weights(run), curve


def after(name: str) -> torch.Tensor:
    return trained(name)[0]


@cache
def before() -> torch.Tensor:
    return weights(trainer("grpo"))
