"""Every registered reward gives the same finite numbers through every door: an episode, gym.make,
make_vec, evaluate with its files, and the trainer. The list is the registry's."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from searchgym.core import Episode, read_jsonl
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym.rewards import REWARDS, Reward
from searchgym.rl import ROLLOUTS, Recipe, TrainConfig, Trainer
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph, TurnRequest

from ..constants import PAID
from ..rl.colours import player, setting
from ..small import CORPUS, TASKS, episode, play

GRAPH = ReasoningGraph(
    (GraphNode("E0", "person", "Mira Venn"), GraphNode("E1", "city", "Aldor", given=True)),
    (GraphEdge("E1", "founder", "E0", 1, "p1"),),
    "E0",
)
ASKED = (TASKS[0], replace(TASKS[1], graph=GRAPH, meta={"gold_texts": ["Aldor was founded."]}))
OWN: dict[str, Any] = {
    "corpus": CORPUS, "tasks": list(ASKED), "max_turns": 8, "max_parallel": 2, "judge": True,
    "delegate": True, "tools": ["search", "access"],
    "dialect": "search_r1+parallel+judge+delegate+access",
}  # fmt: skip
SCRIPTS = {
    "t1": (
        "<think>a</think> <search>Aldor founder ## Osten</search>", "<judge>good</judge>",
        "<access>https://w.example/Quell</access>", "hm", "<task>Who founded it?</task>",
        "<search>Mira Venn born</search>", "<answer>Mira Venn</answer>", "<answer>Quell</answer>",
    ),
    "t2": (
        "<search>Osten</search>", "<judge>bad</judge>", "<search>Aldor founder</search>",
        "<answer>Mira Venn [Aldor]</answer>",
    ),
}  # fmt: skip


class Playing:
    """Says each task's next line; an executor is not told the question."""

    def __init__(self) -> None:
        self.plays: dict[str, tuple[str, ...]] = {}

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        for request in requests:
            if request.turn == 0:
                text = "".join(segment.text for segment in request.segments)
                task = next(t for t in ASKED if t.question in text)
                self.plays[request.episode_id] = SCRIPTS[task.id]
        return [self.plays[request.episode_id][request.turn] for request in requests]


@cache
def made() -> SearchEnv:
    return SearchEnv(**OWN)


def paid(name: str, task_id: str) -> Episode:
    task = next(t for t in ASKED if t.id == task_id)
    rules = replace(made().rules, reward=Reward.of(name))
    return play(episode(task, **vars_of(rules)), *SCRIPTS[task_id], run=made().toolbox.run)


def vars_of(rules: Any) -> dict[str, Any]:
    from dataclasses import fields

    return {f.name: getattr(rules, f.name) for f in fields(rules)}


@pytest.mark.parametrize("name", PAID)
def test_the_same_numbers_through_every_door(name: str, tmp_path: Path) -> None:
    wanted = {}
    for task_id in SCRIPTS:
        e = paid(name, task_id)
        assert e.end == "answered"
        wanted[task_id] = [turn.reward for turn in e.turns]
        assert all(map(math.isfinite, wanted[task_id]))
        assert [t.reward for t in paid(name, task_id).turns] == wanted[task_id], "deterministic"
        again = Episode.restore(json.loads(json.dumps(e.snapshot())))
        assert [t.reward for t in again.turns] == wanted[task_id]
        assert e.outcome() == again.outcome()
    env = gym.make("SearchQA-v0", **OWN, reward=name)
    assert {t: steps(env, t) for t in SCRIPTS} == wanted
    envs = gym.make_vec("SearchQA-v0", 2, vectorization_mode="vector_entry_point", **OWN,
                        reward=name)  # fmt: skip
    for task_id, script in SCRIPTS.items():
        envs.reset(seed=0, options={"task_id": task_id})
        got = [envs.step([text] * 2)[1].tolist() for text in script]
        assert got == [[reward] * 2 for reward in wanted[task_id]]
    envs.close()
    result = evaluate(Playing(), SearchEnv(**OWN, reward=name), name="x", out=tmp_path / "x.json")
    sums = {task_id: math.fsum(rewards) for task_id, rewards in wanted.items()}
    assert {row.task_id: row.reward for row in result.rows} == pytest.approx(sums, abs=1e-12)
    for line in read_jsonl(tmp_path / "x.trajectories.jsonl"):
        assert [turn["reward"] for turn in line.turns] == wanted[line.task_id]


def steps(env: gym.Env[Any, Any], task_id: str) -> list[float]:
    env.reset(options={"task_id": task_id})
    return [float(env.step(text)[1]) for text in SCRIPTS[task_id]]


@pytest.mark.parametrize("name", REWARDS)
@pytest.mark.parametrize("texts", [["hm"] * 8, ["<search>Osten</search>"] * 8])
def test_a_reward_of_a_bad_episode_is_finite(name: str, texts: Sequence[str]) -> None:
    """Cut by a budget, without gold passages or queries."""
    bare = replace(TASKS[1], evidence=(), queries=())
    rules = replace(made().rules, reward=Reward.of(name))
    e = play(episode(bare, **vars_of(rules)), *texts)
    assert e.end == "max_turns"
    assert all(math.isfinite(turn.reward) for turn in e.turns)


def test_the_trainer_pays_every_reward_alike(tmp_path: Path) -> None:
    """All at once, each with a weight of its own."""
    spec = {name: 0.1 + 0.01 * i for i, name in enumerate(PAID)}
    model, policy = player(3)
    recipe = Recipe.of({"rollout": {"use": "chains", "size": 3}, "advantage": "grpo",
                        "loss": "ppo"})  # fmt: skip
    config = TrainConfig.of(recipe, tasks=2, steps=1, seed=3, lr=5e-3, save_rollouts=4)
    (metrics,) = Trainer(
        setting().under(reward=spec), model, recipe, config, policy=policy, out=tmp_path
    ).train()
    saved = list(read_jsonl(tmp_path / ROLLOUTS))
    assert saved
    for trajectory in saved:
        rewards = [turn.reward for turn in trajectory.replay().turns]
        assert [turn["reward"] for turn in trajectory.turns] == rewards
        assert trajectory.training["reward"] == pytest.approx(sum(rewards), abs=1e-5)
    worth = sum(weight * metrics.get(f"rewards/{name}", 0.0) for name, weight in spec.items())
    assert metrics["return"] == pytest.approx(worth, abs=1e-6)
