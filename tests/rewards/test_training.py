"""Training is paid by the environment's own reward, and its saved rollouts say which it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from searchgym.core import read_jsonl
from searchgym.errors import CardError
from searchgym.rl import ROLLOUTS, Recipe, TrainConfig, Trainer, minimal

from ..rl.colours import player, setting
from . import own

RECIPE = {"rollout": {"use": "chains", "size": 3}, "advantage": "grpo", "loss": "ppo"}
SPEC: dict[str, Any] = {own.brevity: 0.5, own.novelty: 0.25, "search": -0.125}


def trained(reward: Any, out: Path | None = None) -> list[dict[str, float]]:
    model, policy = player(3)
    recipe = Recipe.of(RECIPE)
    config = TrainConfig.of(
        recipe, tasks=2, steps=2, seed=3, lr=5e-3, save_rollouts=4 if out else 0
    )
    here = setting().under(reward=reward)
    return list(Trainer(here, model, recipe, config, policy=policy, out=out).train())


def test_the_trainer_pays_what_the_episodes_say(tmp_path: Path) -> None:
    steps = trained(SPEC, tmp_path)
    saved = list(read_jsonl(tmp_path / ROLLOUTS))
    assert saved
    for trajectory in saved:
        with pytest.raises(CardError, match="is code of its own"):
            trajectory.replay()
        episode = trajectory.replay(reward=SPEC)
        rewards = [turn.reward for turn in episode.turns]
        assert [turn["reward"] for turn in trajectory.turns] == rewards
        assert trajectory.training["reward"] == pytest.approx(sum(rewards), abs=1e-6)
        parts = episode.parts or {}
        worth = 0.5 * parts["brevity"] + 0.25 * parts["novelty"] - 0.125 * parts["searches"]
        assert sum(rewards) == pytest.approx(worth)
    for metrics in steps:
        worth = (
            0.5 * metrics["rewards/brevity"] + 0.25 * metrics["rewards/novelty"]
            - 0.125 * metrics.get("rewards/search", 0.0)
        )  # fmt: skip
        assert metrics["return"] == pytest.approx(worth)
        assert metrics["reward"] == pytest.approx(worth, abs=1e-6)


def test_another_reward_is_another_training() -> None:
    assert [m["reward"] for m in trained(own.brevity)] != [m["reward"] for m in trained(SPEC)]
    nameless = {"half": lambda outcome: 0.5 * own.brevity(outcome)}
    assert trained(nameless)[0]["return"] == pytest.approx(trained({own.brevity: 0.5})[0]["return"])


def test_the_file_that_fits_on_a_page_is_paid_alike() -> None:
    lm, policy = player(3)
    config = minimal.Config(steps=1, tasks=2, group=3, lr=5e-3, seed=3)
    (metrics,) = minimal.grpo(setting().under(reward=SPEC), lm, policy, config)
    assert metrics["reward"] == pytest.approx(trained(SPEC)[0]["reward"], abs=1e-6)
