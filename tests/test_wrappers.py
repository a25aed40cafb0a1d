"""Candidate actions for ordinary RL libraries."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from searchgym.candidates.features import FEATURE_NAMES
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError
from searchgym.wrappers import CandidateActions

from .small import CORPUS, TASKS


def wrapped(**keywords) -> CandidateActions:
    return CandidateActions(SearchEnv(corpus=CORPUS, tasks=TASKS, max_turns=4), **keywords)


@pytest.mark.filterwarnings("ignore:.*We recommend using the raw environment.*")
@pytest.mark.filterwarnings("error")
def test_it_is_a_sound_gymnasium_environment():
    check_env(wrapped(), skip_render_check=True)


def test_candidates_are_legal_and_masks_follow_them():
    env = wrapped(max_actions=64)
    observation, info = env.reset(seed=0, options={"task_id": "t1"})
    assert observation["features"].shape == (64, len(FEATURE_NAMES))
    n = info["candidates"]
    assert observation["mask"].sum() == n == env.action_masks().sum()
    assert not observation["features"][n:].any()
    rng = np.random.default_rng(0)
    over = False
    while not over:
        action = int(rng.choice(np.flatnonzero(env.action_masks())))
        observation, _, terminated, truncated, info = env.step(action)
        assert info["valid"]
        over = terminated or truncated
    assert not env.action_masks().any()


def test_a_masked_action_is_invalid_not_an_error():
    env = wrapped(max_actions=64)
    env.reset(seed=0)
    info = env.step(63)[-1]
    assert not info["valid"]


def test_too_many_candidates_keep_the_refusal():
    env = wrapped(max_actions=3)
    env.reset(seed=0)
    assert "abstain" not in [c.form for c in env.candidates]  # nothing was looked for yet
    env.step(0)
    assert [c.form for c in env.candidates][-1] == "abstain"
    assert len(env.candidates) == 3


def test_other_environments_are_refused():
    with pytest.raises(CardError, match=r"gym\.make"):
        CandidateActions(gym.make("CartPole-v1"))


def test_maskable_ppo_learns_in_it():
    """Stable-Baselines3-contrib's MaskablePPO learns to answer a one-question world."""
    import sb3_contrib as sb3

    env = CandidateActions(
        SearchEnv(corpus=CORPUS, tasks=TASKS[1:], max_turns=3, reward={"f1": 1.0}), max_actions=24
    )
    model = sb3.MaskablePPO(
        "MultiInputPolicy", env, seed=0, n_steps=128, batch_size=64, learning_rate=3e-3, n_epochs=8,
        gamma=1.0, device="cpu",
    )  # fmt: skip
    from sb3_contrib.common.maskable.evaluation import evaluate_policy as masked

    before, _ = masked(model, env, n_eval_episodes=40, deterministic=False, warn=False)
    model.learn(2_000)
    after, _ = masked(model, env, n_eval_episodes=20, warn=False)
    assert after >= 0.9 > before + 0.3
