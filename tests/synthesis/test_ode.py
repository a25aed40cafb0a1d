"""ODE: the configuration settles where an agent succeeds in .2 to .8 of its tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from searchgym.curricula import make_curriculum
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.seeding import stream
from searchgym_agents.experts import QuotingOracle
from searchgym_agents.synthesis.ode import AXES, ODE

Curve = Callable[[Mapping[str, float]], float]
WINDOWS = 20


def by_hops(skill: float) -> Curve:
    return lambda at: 1 / (1 + math.exp(1.5 * (at["hops"] - 1 - skill)))


def by_all(skill: float) -> Curve:
    def success(at: Mapping[str, float]) -> float:
        hard = at["hops"] + at["branches"] - 2 + 0.5 * at["distractors"]
        return 1 / (1 + math.exp(2 * (hard - skill)))

    return success


def played(
    curve: Curve, windows: int, seed: int = 0, ode: ODE | None = None
) -> tuple[ODE, list[float]]:
    """True success in each window of an agent that draws from it."""
    ode, rng, shares = ode or ODE(), stream(seed, "ode"), []
    for _ in range(windows):
        share = curve(ode.own())
        shares.append(share)
        for _ in range(ode.window):
            ode.observe("task", float(rng.random() < share), ode.own())
    return ode, shares


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("skill", [0, 0.7, 1.4, 2.3, 3.1, 4, 4.6])
@pytest.mark.parametrize("curve", [by_hops, by_all])
def test_success_settles_within_twenty_windows(
    curve: Callable[[float], Curve], skill: float, seed: int
) -> None:
    ode, shares = played(curve(skill), 2 * WINDOWS, seed)
    after = shares[WINDOWS:]
    assert sum(0.2 <= share <= 0.8 for share in after) >= 0.8 * len(after), shares
    assert len(ode.log) == ode.windows == 2 * WINDOWS


def test_a_stub_that_is_good_to_three_hops() -> None:
    """Beyond three hops every other answer is right: it settles at four hops or more."""
    ode, shares = played(lambda at: 1.0 if at["hops"] <= 3 else 0.5, WINDOWS)
    assert ode.own()["hops"] >= 4
    assert shares[-1] == 0.5
    at = dict(ODE().own())
    for entry in ode.log:  # the log replays to the configuration
        assert entry["verdict"] == ("too_easy" if entry["success"] > 0.8 else "good_match")
        for axis, (before, now) in entry["edits"].items():
            assert at[axis] == before
            at[axis] = now
    assert at == ode.own()


def test_a_step_that_is_too_steep_leaves_its_axis_to_the_others() -> None:
    """Two hops are always right, three never, and each distractor costs a little."""
    ode, shares = played(
        lambda at: 0.0 if at["hops"] > 2 else 1 - 0.07 * at["distractors"], 2 * WINDOWS
    )
    assert ode.own()["hops"] <= 2
    assert 0.2 <= shares[-1] <= 0.8


def test_it_follows_an_agent_that_learns_and_one_that_forgets() -> None:
    ode, shares = played(by_all(1.0), WINDOWS)
    before = ode.place
    _, shares = played(by_all(5.0), WINDOWS, ode=ode)
    assert ode.place > before
    assert 0.2 <= shares[-1] <= 0.8
    _, shares = played(by_all(1.0), WINDOWS, ode=ode)
    assert 0.2 <= shares[-1] <= 0.8


def test_the_path_hardens_one_axis_at_a_time_in_turn() -> None:
    ode = ODE()
    steps = [ode.configuration(place) for place in range(ode.end + 1)]
    assert steps[0] == {name: levels[0] for name, levels in AXES.items()}
    assert steps[-1] == {name: levels[-1] for name, levels in AXES.items()}
    changed = [[n for n in b if b[n] != a[n]] for a, b in pairwise(steps)]
    assert changed[:4] == [["hops"], ["branches"], ["distractors"], ["hops"]]
    assert all(len(axes) == 1 for axes in changed)


def test_episodes_of_another_configuration_do_not_count_and_states_come_back() -> None:
    ode = ODE(window=2)
    for _ in range(9):
        ode.observe("task", 1.0, {**ode.own(), "hops": 6})
    assert (ode.windows, ode.place) == (0, 0)
    other = ODE(window=2)
    for _ in range(7):
        ode.observe("task", 1.0, ode.own())
        other.load_state_dict(json.loads(json.dumps(ode.state_dict())))
        assert (other.own(), other.log) == (ode.own(), ode.log)
    assert ode.windows == 3
    for wrong in ({"low": 0.8}, {"axes": {"hops": []}}, {"window": 0}):
        with pytest.raises(CardError, match="ode needs"):
            make_curriculum({"use": "ode", **wrong})


def test_a_real_agent_in_its_environment() -> None:
    """An expert that believes only what it was shown, before an engine that can be made noisy."""
    ode = ODE({"hops": (1, 2, 3, 4), "noise": (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)}, window=16)
    env = SearchEnv(
        corpus="encyclopedia", world={"entities": 500}, curriculum=ode, engine={"name": "degraded"},
        tasks={"simple": 40, "chain-2": 40, "chain-3": 40, "chain-4": 20, "at_most": True},
        max_turns=8, may_abstain=True,
    )  # fmt: skip
    agent, hops = QuotingOracle(env), []
    for episode in range(16 * WINDOWS):
        env.reset(seed=episode)
        if ode.windows == WINDOWS - 1:
            hops.append(env.episode.config.task.hops)
        done = False
        while not done:
            _, _, ended, cut, _ = env.step(agent.act(env.requests())[0])
            done = ended or cut
    late = [entry["success"] for entry in ode.log[10:]]
    assert ode.windows == WINDOWS
    assert sum(0.2 <= share <= 0.8 for share in late) >= 0.8 * len(late), ode.log
    assert len(set(hops)) == 1, "tasks reach the configuration"
