"""Stable-Baselines3 and its contrib, unmodified, train in many slots at once."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

from searchgym import CandidateActions, VectorCandidateActions
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.integrations import sb3
from tests.integrations.scene import scene
from tests.small import CORPUS, TASKS


def test_slots_play_as_single_environments_do():
    """Observations, rewards and ends of every slot, to the bit, over resets."""
    envs = sb3.vec_env(scene(), 3, max_actions=40)
    singles = [CandidateActions(scene(), max_actions=40) for _ in range(3)]
    envs.seed(7)
    first = envs.reset()
    for i, env in enumerate(singles):
        theirs, _ = env.reset(seed=7 + i)
        assert all(np.array_equal(first[name][i], theirs[name]) for name in theirs)
    rng = np.random.default_rng(0)
    total, ended = np.zeros(3), 0
    for _ in range(40):
        masks = get_action_masks(envs)
        actions = np.asarray([rng.choice(np.flatnonzero(mask)) for mask in masks])
        rows, rewards, dones, infos = envs.step(actions)
        total += rewards
        for i, env in enumerate(singles):
            theirs, reward, terminated, truncated, _ = env.step(actions[i])
            assert (rewards[i], dones[i]) == (reward, terminated or truncated)
            if dones[i]:
                last = infos[i]["terminal_observation"]
                assert all(np.array_equal(last[name], theirs[name]) for name in theirs)
                assert infos[i]["episode"]["r"] == total[i]
                total[i], ended = 0, ended + 1
                theirs, _ = env.reset()
            assert all(np.array_equal(rows[name][i], theirs[name]) for name in theirs)
            assert np.array_equal(masks.shape, (3, 40))
    assert ended > 5
    assert is_masking_supported(envs)


def test_reset_options_reach_each_slot():
    envs = sb3.vec_env(scene(), 2, max_actions=40)
    ids = [task.id for task in scene().tasks]
    envs.set_options([{"task_id": ids[0]}, {"task_id": ids[1]}])
    envs.reset()
    told = [scene().task(info["task_id"]).id for info in envs.reset_infos]
    assert told == ids[:2]


def test_attributes_are_those_of_the_environment_that_all_slots_play():
    envs = sb3.vec_env(scene(), 2, max_actions=40)
    assert [len(tasks) for tasks in envs.get_attr("tasks")] == [len(scene().tasks)] * 2
    envs.set_attr("params", {"top_k": 1})
    assert envs.get_attr("params") == [{"top_k": 1}] * 2
    envs.reset()
    assert [episode.config.params for episode in envs.envs.search_envs.episodes] == [
        {"top_k": 1}
    ] * 2
    assert envs.get_attr("menu") == [envs.envs.menu] * 2


def test_what_would_be_wrong_is_refused():
    with pytest.raises(CardError, match="SameStep"):
        sb3.SearchVecEnv(VectorCandidateActions(gym.make_vec("SearchQA-v0", 2)))
    with pytest.raises(CardError, match="make_vec"):
        VectorCandidateActions(gym.make_vec("CartPole-v1", 2))
    envs = sb3.vec_env(scene(), 2)
    with pytest.raises(CardError, match="all of them"):
        envs.set_attr("candidates", [], indices=[0])


def test_maskable_ppo_learns_in_many_slots():
    env = SearchEnv(corpus=CORPUS, tasks=TASKS[1:], max_turns=3, reward={"f1": 1.0})
    envs = sb3.vec_env(env, 8, max_actions=24)
    model = MaskablePPO(
        "MultiInputPolicy", envs, seed=0, n_steps=16, batch_size=64, learning_rate=3e-3,
        n_epochs=8, gamma=1.0, device="cpu",
    )  # fmt: skip
    model.learn(128)
    before = np.mean([episode["r"] for episode in model.ep_info_buffer])
    model.learn(1_000)
    after = np.mean([episode["r"] for episode in model.ep_info_buffer][-30:])
    assert after >= 0.8 > before + 0.3
