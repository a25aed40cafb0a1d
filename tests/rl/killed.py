"""A training run in a process of its own, to be killed. Imports all it needs at once, so that a
fork of a process that has imported this starts at once, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers.models.llama.modeling_llama  # noqa: F401
from safetensors.torch import load_file

from searchgym.engines import BM25Engine  # noqa: F401
from searchgym.policies import TrainableLM
from searchgym.rl import OwnWeights
from searchgym.rl.recipe import Recipe
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl import lookup
from tests.rl.colours import SAMPLING, blank, setting, tokenizer

RECIPE: dict[str, Any] = {  # everything that has memory
    "rollout": {"use": "chains", "size": 3},
    "signal": ["return", "length"],
    "reward": ["weighted", {"use": "overlong", "longest": 12, "buffer": 6, "penalty": 0.1}],
    "advantage": {"use": "reinforce", "momentum": 0.8},
    "loss": [{"use": "ppo", "clip_high": 0.28}, {"use": "kl", "weight": 0.01}],
    "data": "prioritized",
    "schedule": {"use": "adaptive_kl", "start": 0.01, "target": 0.01, "horizon": 100},
    "train": {"minibatches": 2},
}
STEPS = 10


RANKED: dict[str, Any] = {  # two sets of weights, with an optimizer each
    "rollout": {"use": "ranked", "size": 4, "keep": 2},
    "reward": ["weighted", "ranking"],
    "advantage": {"use": "by_role", "base": "grpo"},
    "loss": "ppo",
    "train": {"minibatches": 2},
}


def main(out: str, warm: str) -> None:
    """Train one policy from the weights in file ``warm``, or, without it, one and its ranker."""
    torch.set_num_threads(1)
    if not warm:
        lm, policy = lookup.player(0)
        recipe = Recipe.of(RANKED)
        config = TrainConfig.of(recipe, steps=STEPS, tasks=3, lr=1e-3, seed=5, save_every=3)
        roles = {"ranker": OwnWeights(*lookup.player(0))}
        env = lookup.shelf(2)
        for _ in Trainer(
            env, lm, recipe, config, policy=policy, roles=roles, out=Path(out)
        ).train():
            pass
        return
    model = blank()
    model.load_state_dict(load_file(warm), strict=False)
    lm = TrainableLM(model, tokenizer(), reference=True)
    policy = lm.policy("plain", sampling=SAMPLING, seed=5)
    recipe = Recipe.of(RECIPE)
    config = TrainConfig.of(recipe, steps=STEPS, tasks=2, lr=3e-3, seed=5, save_every=3)
    for _ in Trainer(setting(), lm, recipe, config, policy=policy, out=Path(out)).train():
        pass
