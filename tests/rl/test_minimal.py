"""``minimal.py`` is the recipe ``grpo``, and reads like it."""

from __future__ import annotations

import math
import textwrap
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from searchgym.policies import TrainableLM
from searchgym.rl import minimal
from searchgym.rl.minimal import Config, advantages, grpo, surrogate
from searchgym.rl.recipe import Recipe, read
from tests.rl.colours import player, setting
from tests.rl.trainers import LR, trainer, weights

pytestmark = pytest.mark.contract


@cache
def run(seed: int, steps: int = 20) -> tuple[list[dict[str, float]], torch.Tensor]:
    lm, policy = player(seed)
    config = Config(steps=steps, tasks=4, group=6, epochs=2, lr=2e-3, seed=seed)
    metrics = list(grpo(setting(), lm, policy, config))
    return metrics, torch.cat([p.detach().flatten() for p in lm.parameters()])


@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns(seed: int) -> None:
    metrics, _ = run(seed)
    reward = [m["reward"] for m in metrics]
    assert reward[0] <= 0.5
    assert sum(reward[-3:]) / 3 > 0.9


def test_equal_seeds_give_equal_numbers() -> None:
    first, weights = run(1, 4)
    run.cache_clear()
    again, same = run(1, 4)
    assert first == again
    assert torch.equal(weights, same)
    assert first != run(0, 4)[0]


def test_advantages_leave_out_what_is_broken() -> None:
    nan = float("nan")
    adv = advantages(torch.tensor([[1.0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1], [1, 0, nan, nan]]), 0.0)
    torch.testing.assert_close(adv[0], torch.tensor([1.5, -0.5, -0.5, -0.5]))
    assert (adv[1] == 0).all()
    torch.testing.assert_close(adv[2], torch.tensor([0.5**0.5, -(0.5**0.5), 0, 0]))
    lost = advantages(torch.full((1, 3), nan), 1e-6)
    assert (lost == 0).all()


def test_rows_of_one_episode_count_as_one() -> None:
    """An edited context splits an episode into rows; its weight stays."""
    logp = torch.tensor([[-1.0, -2.0, -0.5, -0.1]], requires_grad=True)
    old, adv = logp.detach() - 0.05, torch.tensor([[0.7]])
    mask = torch.tensor([[False, True, True, True]])
    whole, _ = surrogate(logp, old, adv, mask, ["a"], 0.2)
    early = torch.tensor([True, True, False, False])
    parts = torch.stack([mask[0] & early, mask[0] & ~early])
    two = logp.expand(2, 4)
    split, _ = surrogate(two, old.expand(2, 4), adv.expand(2, 1), parts, ["a", "a"], 0.2)
    torch.testing.assert_close(whole, split)


def test_masked_tokens_do_not_matter() -> None:
    mask = torch.tensor([[False, True]])
    logp = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    old = torch.tensor([[math.nan, -2.0]])
    loss, _ = surrogate(logp, old, torch.ones(1, 1), mask, ["a"], 0.2)
    loss.backward()
    assert logp.grad is not None
    assert logp.grad.tolist() == [[0.0, -1.0]]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert minimal.__doc__
    example = minimal.__doc__.partition("::\n")[2]
    exec(textwrap.dedent(example), {})
    assert capsys.readouterr().out.count("{'step'") == 2


def test_it_stays_short() -> None:
    assert len(Path(minimal.__file__).read_text().splitlines()) <= 300


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
