"""RLlib, unmodified, on its new API stack and with the Gymnasium it pins, trains on candidate
actions; run by ``make peers`` in an environment that has it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from searchgym import CandidateActions
from tests.integrations.glue import run
from tests.integrations.scene import SCENE
from tests.peers.local_ray import cluster

WIDTH = 40


def make(config):
    env = gym.make("SearchQA-v0", **{**SCENE, **config})
    return CandidateActions(env, layout="rllib", max_actions=WIDTH)


@pytest.fixture(scope="module")
def address():
    with cluster(2) as found:
        yield found


@pytest.fixture(scope="module")
def algorithm(address):
    register_env("searchgym", make)
    config = (
        PPOConfig()
        .environment("searchgym", env_config={"max_turns": 3})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [32]}
            )
        )
        .training(train_batch_size_per_learner=128, minibatch_size=64, num_epochs=1, gamma=1.0)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    yield algorithm
    algorithm.stop()


def test_an_iteration_trains(algorithm):
    assert algorithm.config.enable_rl_module_and_learner
    before = algorithm.get_weights()["default_policy"]
    result = algorithm.train()
    runners = result["env_runners"]
    assert runners["num_env_steps_sampled_lifetime"] >= 128
    assert 0 <= runners["episode_return_mean"] <= 1
    assert 1 <= runners["episode_len_mean"] <= 3
    after = algorithm.get_weights()["default_policy"]
    assert any(not np.array_equal(before[name], after[name]) for name in after)


def test_only_legal_candidates_are_taken(algorithm):
    """RLlib's module, as it samples, never picks what the mask forbids: no turn is invalid."""
    import torch

    module = algorithm.get_module()
    env = make({"max_turns": 3})
    rng = torch.Generator().manual_seed(0)
    taken = 0
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            batch = {name: torch.as_tensor(value[None]) for name, value in observation.items()}
            logits = module.forward_exploration({"obs": batch})["action_dist_inputs"]
            action = int(torch.multinomial(torch.softmax(logits[0], -1), 1, generator=rng))
            assert observation["action_mask"][action] == 1
            observation, _, terminated, truncated, info = env.step(action)
            assert info["valid"]
            over, taken = terminated or truncated, taken + 1
    assert taken >= 20


def test_the_documented_program_trains(tmp_path, address):
    printed = run("rllib_ppo.py", tmp_path, RAY_ADDRESS=address)
    assert 0 <= float(printed.splitlines()[-1]) <= 1
