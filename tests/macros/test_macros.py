"""The learner over macro-actions: what it reads, its gradient, and that it learns."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401  (registers)
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, DataError
from searchgym.evaluation import evaluate
from searchgym.types import Answer
from searchgym_agents.macros.dossiers import Part, parts_of
from searchgym_agents.macros.history import between, tail
from searchgym_agents.macros.policy import (
    SIZE,
    MacroAgent,
    Slot,
    _Choice,
    places_of,
    readers,
    train,
)

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
        choice = _Choice(["x", "y"], places, taken, shares)
        twin.learn([([choice], float(paid[taken]))], 1, 1.0, 0.0)
        step += shares[taken] * (twin.weights["x"] - agent.weights["x"])
    agent.weights["x"][places[0]] += 1e-6
    assert step[places[0]] == pytest.approx((value() - before) / 1e-6, rel=1e-4)


def test_slots_are_filled_by_their_weights_and_learn() -> None:
    """Three options that differ in one number and one mark; the second is paid."""
    slot = Slot("s", ["a", "b", "c"], np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
                np.array([[3], [4], [5]]))  # fmt: skip
    agent = MacroAgent("service")
    assert agent.shares_of(slot).tolist() == pytest.approx([1 / 3] * 3)
    for _ in range(30):
        shares = agent.shares_of(slot)
        choices = [
            ([_Choice((), np.zeros(0, np.int64), i, shares, slot)], float(i == 1) - shares[1])
            for i in range(3)
        ]
        agent.learn(choices, 3, 0.5, 0.0)
    shares = agent.shares_of(slot)
    assert shares[1] > 0.9
    assert shares[0] == pytest.approx(shares[2])


@pytest.mark.parametrize("name", ["AmbiguousQA", "ComputedQA", "ReportQA"])
def test_any_choice_of_macro_actions_is_a_legal_episode(name: str) -> None:
    """Drawn uniformly, slots included: every text is an action, and every episode ends."""
    family = {"AmbiguousQA": "ambiguous", "ComputedQA": "computed", "ReportQA": "report"}[name]
    small = {"world": {"entities": 400}, "tasks": {family: 12, "at_most": True}}
    env = gym.make(f"searchgym/{name}-v0", **small).unwrapped
    result = evaluate(MacroAgent(family, seed=1), env)
    assert all(row.end == "answered" and not row.invalid for row in result.rows)
    assert {row.turns for row in result.rows} != {1}


def test_a_report_is_asked_for_in_parts() -> None:
    topic, parts = parts_of(
        "Write up the area of Zau, the mayor of the city where the firm that made Zau is based and "
        "the length of the river that Zau flows into. Every sentence must cite a page: [Title]."
    )
    assert topic == "Zau"
    assert parts == [
        Part("the area of Zau"),
        Part("the mayor of the city where ", "the firm that made Zau", " is based"),
        Part("the length of ", "the river that Zau flows into"),
    ]
    assert parts[1].about("Hal") == "the mayor of the city where Hal is based"


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


@pytest.mark.parametrize(
    "told",
    [
        [], {"family": "service"}, {"family": "service", "weights": [1]},
        *({"family": "service", "weights": {"x": of}} for of in (
            [10**12, {}], [-1, {}], [True, {}], [2.0, {}], [4, {"9": 1.0}], [4, {"-1": 1.0}],
            [4, {"x": 1.0}], [4, {"1": "y"}], [4, {"1": None}], [4, {"1": 1e999}], [4], 4, None,
        )),
        {"family": "service", "weights": {f"x{i}": [1 << 20, {}] for i in range(9)}},
    ],
)  # fmt: skip
def test_a_strangers_weights_are_an_error(told: object, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(told))
    with pytest.raises(DataError, match=r"w\.json"):
        MacroAgent(weights=str(path))
