"""Hostile calls of the environments of tools: whatever is called is answered."""

from __future__ import annotations

import sys
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.types import Call

KINDS = ("Service", "Travel", "Ambiguous", "Report", "Sql", "Computed")
SQL = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT count sum max ( ) * , ; ' \" -- /* = < > 1 2.5 NULL "
    "AND person city film cast title birthplace UNION ALL WITH RECURSIVE DROP TABLE PRAGMA ATTACH "
    "x'00' CASE WHEN END DISTINCT NOT IN LIKE % || \\ \x00 \ud800 é 9999999999999999999999 0x1 ?"
).split(" ")
CODE = (
    "import os sys print ( ) [ ] { } : \n while True def f lambda yield class raise try except 1 / "
    "0 ** 10 'a' * 9999999 open exec eval __import__ globals \x00 \ud800 é \t del async await = ."
).split(" ")


def hostile(rng: np.random.Generator, gold: str, words: list[str]) -> str:
    """A text made of words, or the gold one with a piece replaced, doubled or left out."""
    drawn = [words[i] for i in rng.integers(len(words), size=rng.integers(1, 12))]
    if rng.random() < 0.4:
        return " ".join(drawn)
    start, end = sorted(rng.integers(len(gold) + 1, size=2).tolist())
    middle = ["", gold[start:end] * 2, " ".join(drawn)][int(rng.integers(3))]
    return gold[:start] + middle + gold[end:]


def played(env: SearchEnv, tool: str, argument: str, words: list[str], n: int) -> Counter[str]:
    """Make so many calls, some of them with arguments that fit nothing."""
    say, rng = get_dialect(env.rules.dialect).render_action, np.random.default_rng(53)
    counts: Counter[str] = Counter()
    over, seed = True, 0
    while counts["calls"] < n:
        if over:
            env.reset(seed=seed)
            gold, seed = str(env.episode.config.task.meta.get("sql", "print(1 + 1)")), seed + 1
        text = hostile(rng, gold, words)
        args = {argument: text} if rng.random() < 0.9 else {text: text, argument: [text]}
        action = say(Call(tool, args))
        if rng.random() < 0.1:
            cut = int(rng.integers(len(action) + 1))
            action = action[:cut] + words[int(rng.integers(len(words)))] + action[cut:]
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        assert np.isfinite(reward)
        assert not (terminated and truncated)
        assert not info.get("outcome", {}).get("infra_error"), action
        over = terminated or truncated
        counts["calls"] += 1
        counts["ran"] += bool(env.episode.turns[-1].calls)
        counts["refused"] += "Error" in info["delta"]
    return counts


@pytest.mark.contract
def test_ten_thousand_hostile_queries() -> None:
    env = gym.make("searchgym/SqlQA-v0", world={"entities": 600}, tasks={"sql": 40}).unwrapped
    counts = played(env, "sql", "query", SQL, 10_000)  # type: ignore[arg-type]
    assert counts["ran"] > 5_000
    assert 500 < counts["refused"] < counts["ran"], "some queries are wrong, and some are not"


@pytest.mark.contract
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means are Linux's")
def test_hostile_code() -> None:
    env = gym.make("searchgym/ComputedQA-v0", world={"entities": 600}, tasks={"computed": 12},
                   tools=["search", {"use": "python", "cpu_seconds": 1}]).unwrapped  # fmt: skip
    counts = played(env, "python", "code", CODE, 150)  # type: ignore[arg-type]
    assert counts["ran"] > 60


@pytest.mark.parametrize("name", [f"{kind}QA-v0" for kind in KINDS])
def test_a_fork_at_every_state_is_solved_and_leaves_the_episode_alone(name: str) -> None:
    if name.startswith("Computed") and sys.platform != "linux":
        pytest.skip("the kernel's means are Linux's")
    env = gym.make(f"searchgym/{name}").unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        said = env.oracle()  # type: ignore[attr-defined]
        for action in ["nothing", *said]:
            fork, before = env.fork(), env.snapshot()  # type: ignore[attr-defined]
            for text in fork.oracle():
                *_, info = fork.step(text)
            assert info["outcome"]["em"] == info["outcome"]["return"] == 1.0
            assert env.snapshot() == before  # type: ignore[attr-defined]
            env.step(action)
        assert env.episode.outcome().em == 1.0  # type: ignore[attr-defined]
