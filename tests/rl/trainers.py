"""Small trainers, and what their weights and logs hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from searchgym.policies import TrainableLM
from searchgym.rl.critics import Critic
from searchgym.rl.log import LOG
from searchgym.rl.recipe import Recipe
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.signals import total
from searchgym.rl.slots.records import TaskPlan, Workers
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import player, setting

LR = 5e-3


def trainer(
    recipe: Any, seed: int = 0, *, lm: dict[str, Any] | None = None, **options: Any
) -> Trainer:
    model, policy = player(seed, **(lm or {}))
    teacher, out = options.pop("teacher", None), options.pop("out", None)
    valued = options.pop("critic", recipe == "ppo")
    critic = Critic(model, lr=LR, epochs=2) if valued else None
    env = options.pop("env", None) or setting()
    made = Recipe.of(recipe)
    config = TrainConfig.of(made, **{"tasks": 4, "lr": LR, "seed": seed, **options})
    return Trainer(env, model, made, config, policy=policy, teacher=teacher, critic=critic, out=out)


def weights(lm: TrainableLM) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in lm.parameters()])


def success(run: Trainer) -> float:
    """Share of right answers in 40 fresh episodes."""
    plans = [TaskPlan(task, f"test{i}", i) for i, task in enumerate(run.env.tasks)]
    groups = Chains(10).collect(plans, Workers(run.policy, run.env, run.lm))
    return float(np.mean([total(m) for g in groups for m in g.members]))


def rows(out: Path) -> list[dict[str, Any]]:
    """The log without clock times."""
    lines = (out / LOG).read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.endswith("_s")} for line in lines]
