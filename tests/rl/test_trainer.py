"""The slot loop gives what ``minimal.py`` gives. (That recipes learn is in ``test_learning``.)"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from searchgym.policies.trainable import TrainableLM
from searchgym.rl import minimal
from searchgym.rl.recipe import Recipe, read
from tests.rl.colours import player, setting
from tests.rl.trainers import LR, trainer, weights


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_slot_loop_is_minimal(epochs: int) -> None:
    lm, policy = player(3)
    lm.model.double()  # else rounding decides the sign of Adam's step where gradients are next to 0
    count = 4 if epochs == 1 else 2
    # in groups of four, float32 advantages are the same in whatever order a group is summed
    config = minimal.Config(steps=count, tasks=3, group=4, epochs=epochs, lr=LR, seed=3)
    plain = list(minimal.grpo(setting(), lm, policy, config))
    recipe = {**read("grpo"), "rollout": {"use": "chains", "size": 4}}
    slots = trainer(recipe, 3, steps=count, tasks=3, epochs=epochs)
    slots.lm.model.double()
    steps = list(slots.train())
    for name in ("reward", "em", "searches", "frac_reward_zero_std"):
        assert [m[name] for m in steps] == pytest.approx([m[name] for m in plain], abs=1e-6), name
    if epochs == 1:
        for name in ("loss", "grad_norm"):
            got, want = [m[name] for m in steps], [m[name] for m in plain]
            np.testing.assert_allclose(got, want, atol=1e-6)
    else:
        assert max(m["clip_frac"] for m in steps) > 0
    assert weights(lm).dtype == torch.float64
    torch.testing.assert_close(weights(slots.lm), weights(lm), atol=1e-6, rtol=1e-5)


@cache
def taught() -> TrainableLM:
    """A model that knows the answer."""
    run = trainer("sft", steps=12)
    list(run.train())
    return run.lm


def test_two_trainings_by_one_recipe_are_the_same() -> None:
    """What the parts of a recipe remember belongs to one training."""
    recipe = Recipe.of("grpo")
    plans = [
        [plan.task.id for plan in run.recipe.data.plan(run.env.tasks, 3, 0, 0)]
        for run in (trainer(recipe, steps=1, tasks=3) for _ in range(2))
        if list(run.train())
    ]
    assert plans[0] == plans[1]
