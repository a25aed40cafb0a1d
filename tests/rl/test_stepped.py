"""Trainers play environments whose wrappers act in ``step``: the model reads what they show, the
episode sees what they send, and what they pay counts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TransformReward

from searchgym.core import run_episodes
from searchgym.envs import search_env
from searchgym.rl.slots.records import Group, Played, TaskPlan, pack, unpack
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import TASKS, player, setting

pytestmark = pytest.mark.filterwarnings("ignore:.*acts in step and reset")


class Loud(gym.ObservationWrapper):
    def observation(self, observation):
        return observation.replace("blue.", "blue!")


class Elsewhere(gym.ActionWrapper):
    """Sends every search to another thing."""

    def action(self, action):
        return "search: Belu" if action.startswith("search:") else action


class Generous(type(setting())):  # type: ignore[misc]
    def step(self, action: str) -> Any:
        text, reward, *rest = super().step(action)
        return text, reward + 5, *rest


WRAPPED: dict[str, Any] = {
    "observations": Loud,
    "actions": Elsewhere,
    "rewards": lambda env: TransformReward(Loud(env), lambda reward: 3 * reward - 1),
    "step": lambda env: Generous(**env.keywords),
    "both": lambda env: Elsewhere(Loud(env)),
}


@pytest.mark.parametrize(
    ("wrap", "recipe"), [*((wrap, "grpo") for wrap in WRAPPED), ("both", "tree_grpo")]
)
def test_two_steps_are_trained(wrap: str, recipe: str) -> None:
    model, policy = player(1)
    before = [p.detach().clone() for p in model.parameters()]
    config = TrainConfig(steps=2, tasks=2, lr=5e-3, seed=1)
    trainer = Trainer(WRAPPED[wrap](setting()), model, recipe, config, policy=policy)
    steps = list(trainer.train())
    assert len(steps) == 2
    assert any((p.detach() != was).any() for p, was in zip(model.parameters(), before, strict=True))
    rewards = {"rewards": (-2, 2), "step": (5, 11)}.get(wrap, (0, 1))
    assert all(rewards[0] <= step["reward"] <= rewards[1] for step in steps)


def test_rows_hold_what_the_model_read_and_wrote() -> None:
    _, policy = player(2)
    env = search_env(Elsewhere(Loud(setting())), stepped=True)
    (episode,) = run_episodes([env.start(5, task=TASKS[0])], policy, env.toolbox)
    rows = policy.rows(episode)
    read = [policy.renderer.tokenizer.decode(row.ids[~row.sampled]) for row in rows]
    assert "Belu is blue!" in read[-1]
    assert "search: Belu" in read[-1], "its own action as the episode shows it"
    written = [policy.renderer.tokenizer.decode(row.ids[row.sampled]) for row in rows]
    assert [t.removesuffix("<|end|>") for t in written] == [turn.text for turn in episode.turns]


def test_an_idle_wrapper_trains_as_none() -> None:
    class Idle(gym.ObservationWrapper):
        def observation(self, observation):
            return observation

    losses = []
    for env in (setting(), Idle(setting())):
        model, policy = player(3)
        config = TrainConfig(steps=2, tasks=2, lr=5e-3, seed=3)
        losses.append(
            [s["loss"] for s in Trainer(env, model, "grpo", config, policy=policy).train()]
        )
    np.testing.assert_array_equal(*losses)


def test_rewards_travel_between_processes() -> None:
    _, policy = player(4)
    env = search_env(WRAPPED["rewards"](setting()), stepped=True)
    (episode,) = run_episodes([env.start(5, task=TASKS[0])], policy, env.toolbox)
    plan = TaskPlan(TASKS[0], "e", 5)
    group = Group(plan, (Played(episode, tuple(policy.rows(episode))),))
    (member,) = unpack(plan, pack(group)).members
    assert member.episode.turns == episode.turns
    assert member.episode.turns[-1].reward in (-1, 2)
