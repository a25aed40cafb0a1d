"""Rewards from what cards, commands and programs say."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from searchgym.errors import CardError
from searchgym.objects import load_object
from searchgym.rewards import MEASURES, REWARDS, Outcome, Reward
from searchgym.rewards.registry import FINAL, MEASURED, PUBLIC, TURN

from . import own

PATH = "tests.rewards.own:"


def test_a_name_weights_or_a_reward() -> None:
    assert Reward.of("f1").weights == {"f1": 1.0}
    reward = Reward.of({"em": 1, "search": -0.02})
    assert reward.weights == {"em": 1.0, "search": -0.02}
    assert Reward.of(reward) is reward
    assert reward.effective({"w_search": 0, "noise": 1}) == {"em": 1.0, "search": 0.0}
    assert Reward.of({}).weights == {}


@pytest.mark.parametrize(
    "spec",
    [
        own.brevity,
        f"{PATH}brevity",
        {"use": f"{PATH}brevity"},
        {"use": own.brevity},
        [own.brevity],
        [f"{PATH}brevity"],
        [{"use": f"{PATH}brevity", "weight": 1}],
        {f"{PATH}brevity": 1},
        {own.brevity: 1.0},
        {"brevity": own.brevity},
        {"brevity": f"{PATH}brevity"},
        {"brevity": {"use": f"{PATH}brevity"}},
        [Reward.of(own.brevity)],
    ],
)
def test_all_ways_to_name_a_function_are_one(spec: Any) -> None:
    reward = Reward.of(spec)
    assert reward == Reward.of(own.brevity)
    assert reward.to_json() == Reward.of(own.brevity).to_json()
    assert reward.weights == {"brevity": 1.0}


@pytest.mark.parametrize(
    "spec",
    [
        {"use": f"{PATH}brevity", "words": 3},
        {"use": own.brevity, "words": 3},
        partial(own.brevity, words=3),
        {"brevity": {"use": f"{PATH}brevity", "words": 3, "weight": 1}},
    ],
)
def test_options_of_a_function(spec: Any) -> None:
    reward = Reward.of(spec)
    assert reward == Reward.of({"use": f"{PATH}brevity", "words": 3})
    assert reward != Reward.of(own.brevity)
    assert reward.to_json()["brevity"]["words"] == 3


@pytest.mark.parametrize(
    "spec",
    [
        own.Thrift(3),
        {"use": f"{PATH}Thrift", "most": 3},
        {"use": own.Thrift, "most": 3},
        {f"{PATH}Thrift": {"most": 3}},
        {"Thrift": {"use": f"{PATH}Thrift", "most": 3}},
    ],
)
def test_all_ways_to_name_a_class_are_one(spec: Any) -> None:
    reward = Reward.of(spec)
    assert reward == Reward.of(own.Thrift(3))
    assert reward.to_json() == Reward.of(own.Thrift(3)).to_json()
    assert reward.to_json()["Thrift"]["most"] == 3
    assert Reward.of(own.Thrift) == Reward.of(own.Thrift())


def test_lists_add_up_and_names_may_be_given() -> None:
    reward = Reward.of(["em", {"search": -0.1, f"{PATH}brevity": 0.5}, own.Thrift])
    assert reward.weights == {"em": 1.0, "search": -0.1, "brevity": 0.5, "Thrift": 1.0}
    twice = {
        "short": {"use": f"{PATH}brevity", "words": 1},
        "long": {"use": f"{PATH}brevity", "words": 9, "weight": -1},
        "exact": {"use": "em", "weight": 2},
    }
    assert Reward.of(twice).weights == {"short": 1.0, "long": -1.0, "exact": 2.0}
    assert Reward.of(lambda outcome: 0.0).weights == {"reward": 1.0}


def test_overrides_reach_own_parts_by_their_names() -> None:
    reward = Reward.of({"em": 1, f"{PATH}brevity": 0.5})
    assert reward.effective({"w_brevity": 0.1, "w_f1": 2})["brevity"] == 0.1
    with pytest.raises(CardError, match=r"unknown reward part 'brevety'.*'brevity'.*w_brevety"):
        reward.effective({"w_brevety": 1})
    with pytest.raises(CardError, match="'correct' is a gate and has no weight"):
        Reward.of(["f1", own.correct]).effective({"w_correct": 1})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"emm": 1.0}, "unknown reward part 'emm'"),
        ("em2", r"unknown reward part 'em2'.*package\.module:Class"),
        ({"em": "much"}, "weight of reward part 'em' is a number or 'gate', got 'much'"),
        ({"em": None}, "got None"),
        ({"em": True}, "got True"),
        ({"em": float("nan")}, "got nan"),
        ({"em": float("inf")}, "got inf"),
        ({"em": 1e308, "f1": -1e308}, r"add up to at most 1e\+30, got em: 1e\+308, f1: -1e\+308"),
        ({"em": 1e31}, r"got em: 1e\+31"),
        (3, "a part's name, an import path, .* got 3"),
        (None, "got None"),
        (["em", 3], "got 3"),
        (["em", "em"], "'em' is there twice"),
        ([own.brevity, {"use": own.brevity, "words": 9}], "'brevity' is there twice"),
        (f"{PATH}brevty", "cannot load"),
        ("no.such.module:f", "cannot load"),
        ({"use": f"{PATH}brevity", "wrods": 3}, "wrods"),
        ({"use": f"{PATH}Thrift", "wrods": 3}, "wrods"),
        ({"use": own.Thrift(), "most": 3}, "is an object already; it takes no 'most'"),
        ({"weight": 3}, "unknown reward part 'weight'"),
        ([{"weight": 3, "words": 2}], "unknown reward part 'weight'"),
        (f"{PATH}PASSAGES", "cannot load"),
        (object(), "builtins:object is no reward part"),
        ({"em": own.brevity}, "the name 'em' .* is taken by a built-in measure"),
        ({"searches": own.brevity}, "the name 'searches' .* is taken"),
        ({"a.b": own.brevity}, "has no dot"),
        ({"em": "gate"}, "a gate multiplies what other parts earn"),
        ({"f1": 1, f"{PATH}correct": 0.5}, "'correct' is a gate: its weight is 'gate', got 0.5"),
        ({"use": f"{PATH}brevity", "digest": "sha256:0"}, "its source has changed"),
    ],
)  # fmt: skip
def test_mistakes_are_named(said: Any, message: str) -> None:
    with pytest.raises(CardError, match=message):
        Reward.of(said)


@pytest.mark.parametrize("name", MEASURED)
def test_every_plain_measure(name: str) -> None:
    """Each is a documented function of an outcome, is named alone, and is recorded by name."""
    function = load_object(REWARDS[name])
    assert inspect.isfunction(function)
    assert list(inspect.signature(function).parameters) == ["outcome"]
    assert (function.__doc__ or "").strip()
    assert function.__name__ == name
    reward = Reward.of(name)
    assert reward.to_json() == {name: 1.0}
    assert Reward.from_json(reward.to_json()) == reward == Reward.of(function)
    (part,) = reward.parts
    assert (part.on_turn is None) != (part.on_end is None)
    assert part.standard == (name in (*TURN, *FINAL))


@pytest.mark.parametrize(
    "name", [n for n in REWARDS if hasattr(load_object(REWARDS[n]), "systems")]
)
def test_every_published_reward(name: str) -> None:
    """Each is a documented data class of JSON options that names its systems and its source, and
    is recorded by name."""
    made = load_object(REWARDS[name])
    assert made.registered.rpartition(":")[2] == name
    assert made.systems
    assert all(isinstance(system, str) for system in made.systems)
    assert made.__doc__
    options = {f.name for f in fields(made)}
    assert not options & {"use", "weight", "name", "digest"}, "a part's table has these already"
    reward = Reward.of(name)
    assert Reward.from_json(json.loads(json.dumps(reward.to_json()))) == reward == Reward.of(made)
    assert Reward.of(made()) == reward
    assert pickle.loads(pickle.dumps(reward)) == reward
    written = reward.to_json()[name]
    assert set(written) == {"use", "weight", *options} if options else written == 1.0


def test_a_look_at_the_names_imports_no_method() -> None:
    code = (
        "import sys; from searchgym.rewards import REWARDS, Reward\n"
        "assert len(REWARDS) > 30; Reward.of('em')\n"
        "used = [m for m in sys.modules if m.startswith('searchgym_agents.methods.')]\n"
        "assert not used, used"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_always_measured_is_registered() -> None:
    assert {*TURN, *FINAL} <= set(REWARDS)
    assert set(TURN) >= PUBLIC
    assert not set(TURN) & set(FINAL)
    assert set(FINAL) <= set(MEASURES)


def test_the_view_cannot_be_written() -> None:
    names = [n for n, v in vars(Outcome).items() if isinstance(v, property)]
    assert len(names) > 25
    assert all(vars(Outcome)[name].fset is None for name in names)
