"""The learner over macro-actions: what it reads, its gradient, and that it learns."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401  (registers)
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.types import Answer
from searchgym_agents.macros.history import between, tail
from searchgym_agents.macros.policy import SIZE, MacroAgent, _Choice, places_of, readers, train

ENVS = {"service": "ServiceQA-v0", "travel": "TravelQA-v0"}


@cache
def env(family: str) -> SearchEnv:
    small = {"world": {"entities": 900}, "tasks": {family: 48}}
    return gym.make(f"searchgym/{ENVS[family]}", **small).unwrapped  # type: ignore[return-value]


def test_pieces_of_texts() -> None:
    assert between("a is b. a is c.", "a is ", ".") == "c"
    assert between("a is b", "a is ", ".") == between("", "x", "y") == ""
    assert tail("the home town of Mira Venn") == "Mira Venn"
    assert tail("the 3 Bells") == "3 Bells"
    assert tail("nothing") == "nothing"


@pytest.mark.parametrize("family", ENVS)
def test_macro_actions_lead_to_all_that_can_be_earned(family: str) -> None:
    """Whoever takes, of the macro-actions, those that the oracle's calls and answers are, is paid
    in full: the reader offers enough, and reads only what was shown."""
    played = env(family)
    solved = 0
    for task in played.tasks:
        played.reset(seed=0, options={"task_id": task.id})
        dialect = get_dialect(played.rules.dialect)
        while played.episode.phase != "done":
            (request,) = played.requests()
            macros = readers()[family](request).macros
            assert all(dialect.parse(dialect.render_action(m.action)).action for m in macros)
            kinds = {m.kind: m for m in macros}
            answers = [m for m in macros if isinstance(m.action, Answer)]
            if family == "travel":
                rest = [m for m in macros if m not in answers]
                chosen = rest[0] if rest else kinds["plan"]
            else:
                last = task.answers[0]
                right = [m for m in answers if m.action.text == last]  # type: ignore[union-attr]
                write = {str(c["tool"]) for c in task.meta["calls"]} & {
                    "refund",
                    "cancel",
                    "exchange",
                }
                todo = [k for k in ("ask city", "orders", "ask item", "look", "ask want",
                                    "ask confirm", "stock", *write) if k in kinds]  # fmt: skip
                chosen = kinds[todo[0]] if todo else right[0]
            reward = played.step(dialect.render_action(chosen.action))[1]
        solved += reward == 1
    assert solved == len(played.tasks)


def test_the_gradient_is_that_of_the_expected_reward() -> None:
    """One decision, two macro-actions: the mean update is the gradient, by finite differences."""
    places = places_of(["a", "b"])
    assert len(places) == 3
    paid = np.array([1.0, 0.25])
    agent = MacroAgent("service")
    agent.weights = {"x": np.zeros(SIZE), "y": np.zeros(SIZE)}
    agent.weights["x"][places] = 0.1

    def value() -> float:
        return float(agent.shares(["x", "y"], places) @ paid)

    shares, before = agent.shares(["x", "y"], places), value()
    step = np.zeros(SIZE)
    for taken in (0, 1):
        twin = MacroAgent("service", {k: w.copy() for k, w in agent.weights.items()})
        twin.choices = {"e": [_Choice(["x", "y"], places, taken, shares)]}
        twin.learn({"e": float(paid[taken])}, 1.0, 0.0)
        step += shares[taken] * (twin.weights["x"] - agent.weights["x"])
    agent.weights["x"][places[0]] += 1e-6
    assert step[places[0]] == pytest.approx((value() - before) / 1e-6, rel=1e-4)


@pytest.mark.contract
def test_it_learns_and_its_weights_come_back(tmp_path: Path) -> None:
    """From nothing: whoever draws macro-actions uniformly is hardly ever paid."""
    rewards = [
        (agent, figures["reward"]) for agent, figures in train(env("service"), 1, updates=14)
    ]
    agent = rewards[-1][0]
    assert rewards[0][1] < 0.05
    assert rewards[-1][1] > 0.4
    agent.save(tmp_path / "w.json")
    again = MacroAgent(weights=str(tmp_path / "w.json"))
    assert again.family == "service"
    for kind, weights in agent.weights.items():
        if weights.any():
            np.testing.assert_array_equal(again.weights[kind], weights)
    with pytest.raises(CardError, match="family"):
        MacroAgent("servce")
