"""GRPO in one file learns, repeats itself, and leaves what it must not touch."""

from __future__ import annotations

import math
import textwrap
from functools import cache
from pathlib import Path

import pytest
import torch

from searchgym.rl import minimal
from searchgym.rl.minimal import Config, advantages, grpo, surrogate
from tests.rl.colours import player, setting

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
