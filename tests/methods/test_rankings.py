"""Rewards of a query's ranking, and the one-step environment in which they are paid."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym.core import Episode
from searchgym.rewards import Reward
from searchgym_agents.methods.rankings import Leser, cosine, rank_value
from tests.small import PASSAGES, TASKS, episode, play

ONE = {"one_search": True, "max_turns": 2, "dialect": "search_r1+parallel", "max_parallel": 3}


def earned(reward: Any, text: str, **options: Any) -> float:
    e = play(episode(reward=Reward.of(reward), **{**ONE, **options}), text)
    (turn,) = e.turns
    assert e.terminated
    return turn.reward


def test_the_incentive_of_ranks() -> None:
    table = {1: 2, 2: 1.8889, 10: 1, 11: 0.9889, 50: 0.5556, 100: 0, 101: 0, None: 0}
    for rank, value in table.items():
        assert rank_value(rank) == pytest.approx(value, abs=1e-4)
    assert earned("rank_incentive", "<search>founded</search>") == 2
    assert earned("rank_incentive", "<search>Osten</search>") == 0
    assert earned("rank_incentive", "<search>Osten ## founded</search>") == 2, "the best counts"
    assert earned("rank_incentive", "no query") == -0.1


def test_leser() -> None:
    both = "<search>founded ## painter</search>"
    assert earned("leser", both) == pytest.approx(0.5 * (1 / (1 + 1 / math.log2(3))) + 0.5), (
        "each query brings one of two, and together all"
    )
    assert earned("leser", "<search>Osten</search>") == 0
    assert earned("leser", "nothing") == -1
    for broken in ({"most": 1}, {"words": 0}, {"banned": ["Painter"]}):
        assert earned({"use": "leser", **broken}, both) == -1
    assert not Leser().violated(["a"] * 5)


def test_tongsearch_qr() -> None:
    task = replace(TASKS[1], question="Who is it that founded the city?")
    gold = f"{PASSAGES[0].title} {PASSAGES[0].text}"
    assert earned("query_gain", f"<search>{task.question}</search>", task=task) == pytest.approx(0)
    assert earned("query_gain", f"<search>{gold}</search>", task=task) == pytest.approx(
        10 * (1 - cosine(task.question, gold))
    )
    assert earned("query_gain", "<search>Osten</search>", task=task) == -1
    assert earned("query_gain", "nothing", task=task) == -1
    assert cosine("", "a b") == 0


def test_the_first_turn_decides() -> None:
    e = play(episode(**ONE), "<search>founded ## painter</search>")
    assert (e.end, e.answer, len(e.turns)) == ("answered", "founded ## painter", 1)
    again = Episode.restore(json.loads(json.dumps(e.snapshot())))
    assert again.turns == e.turns
    assert play(episode(**ONE), "hm").end == "unanswered"
    assert play(episode(**ONE), "<answer>x</answer>").end == "answered"


def test_query_rewriting_is_solved_by_the_gold_query_and_not_by_the_question() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env: Any = gym.make(
            "QueryRewriteQA-v0", world={"entities": 200}, tasks={"follow_up": 30, "at_most": True}
        ).unwrapped
    paid = {"gold": [], "same": []}  # type: dict[str, list[float]]
    for task in env.tasks:
        for who, query in {"gold": task.queries[0], "same": task.question}.items():
            env.reset(options={"task_id": task.id})
            *_, reward, terminated, truncated, _ = env.step(f"<search>{query}</search>")
            assert terminated
            assert not truncated
            paid[who].append(reward)
    assert min(paid["gold"]) >= rank_value(3), "within the first three"
    assert sum(paid["gold"]) > sum(paid["same"])
