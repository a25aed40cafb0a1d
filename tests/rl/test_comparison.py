"""Methods that compare members of a group: found out by trying, refused where nothing can differ,
and named where nothing did."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError
from searchgym.llms import Sampling
from searchgym.rl.collapse import CollapseMonitor, CollapseWarning
from searchgym.rl.data import Dynamic
from searchgym.rl.diagnostics import (
    compares_groups,
    needs_several_members,
    require_members_that_differ,
)
from searchgym.rl.launch import Plan
from searchgym.rl.measures import group_metrics
from searchgym.rl.ops.groups import all_alike
from searchgym.rl.ops.turns import standardized
from searchgym.rl.recipe import Recipe, read
from searchgym.rl.slots.batch import Estimate
from searchgym.rl.slots.protocols import AdvantageEstimator
from searchgym.rl.slots.protocols import make as make_slot
from searchgym.rl.slots.records import Rewards, Scored
from searchgym.rl.slots.registry import REGISTRY
from searchgym.rl.slots.samples import group_of
from tests.rl.kernels import otb
from tests.rl.trainers import trainer

ALONE = {"ones", "ppo", "ppo_turn", "ppo_bi_level", "reinforce", "reinforce_pp", "remax"}
"""Advantages with a baseline that is not the group's: known from their papers."""


def recipe(advantage: Any, **more: Any) -> Recipe:
    return Recipe.of({"advantage": advantage, "loss": "ppo", **more})


@pytest.mark.parametrize("name", REGISTRY["advantage"])
def test_every_advantage_is_tried(name: str) -> None:
    """What declares that equal groups get exactly 0 is found to compare them; baselines of a value
    model, of the past or of a greedy twin work alone."""
    estimator = make_slot("advantage", name)
    made = recipe(name)
    if estimator.relative:
        assert compares_groups(made)
        assert needs_several_members(made)
    if name in ALONE:
        assert not needs_several_members(made)
    if name in ("mt_grpo", "reinforce_pp_baseline"):
        assert compares_groups(made), "turns are compared within a group, too"


def test_a_method_of_ones_own_is_tried_too() -> None:
    class Median(AdvantageEstimator):
        def estimate(self, batch: Any, coef: Any) -> Estimate:
            adv = batch.reward.clone()
            for number in batch.group.unique():
                mine = batch.group == number
                adv[mine] -= batch.reward[mine].nanmedian()
            return Estimate(adv.nan_to_num())

    assert needs_several_members(recipe(Median()))


def test_pairs_need_two() -> None:
    assert needs_several_members(Recipe.of(read("dpo")))


@pytest.mark.parametrize(
    ("table", "sampling", "says"),
    [
        ({"rollout": {"use": "chains", "size": 1}}, Sampling(), "rollout.size must be at least 2"),
        ({}, Sampling(temperature=0.0), "sampling.temperature must be above 0"),
    ],
)
def test_what_can_teach_nothing_is_refused(
    table: dict[str, Any], sampling: Sampling, says: str
) -> None:
    with pytest.raises(CardError, match=says):
        require_members_that_differ(recipe("grpo", **table), sampling)
    require_members_that_differ(recipe("reinforce", **table), sampling)
    with pytest.raises(CardError, match=says):
        Plan("x", {**read("grpo"), **table}, "model", sampling=sampling._asdict())
    if table:
        with pytest.raises(CardError, match=says):
            trainer({**read("grpo"), **table}, steps=1)


EQUAL = {"reward": 0.0, "frac_reward_zero_std": 1.0, "groups": 4.0}


def named(monitor: CollapseMonitor, *steps: dict[str, float]) -> list[list[str]]:
    found = []
    for metrics in steps:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            monitor.update(metrics)
        found.append(monitor.latest)
    return found


def test_no_signal_is_named_once_after_some_steps() -> None:
    monitor = CollapseMonitor(compares_groups=True)
    assert named(monitor, *[EQUAL] * 5) == [[], [], ["no_signal"], [], []]
    assert monitor.finish() == [], "said already"
    differ = {**EQUAL, "frac_reward_zero_std": 0.75}
    assert named(CollapseMonitor(compares_groups=True), *[EQUAL, EQUAL, differ] * 3) == [[]] * 9
    assert named(CollapseMonitor(), *[EQUAL] * 5) == [[]] * 5, "the method learns from all groups"
    lost = {"episodes": 8.0, "infra_errors": 8.0, "groups": 4.0, "frac_reward_zero_std": 1.0}
    assert named(CollapseMonitor(compares_groups=True), *[lost] * 5) == [[]] * 5


@pytest.mark.parametrize("compares", [True, False])
def test_a_dead_run_is_named_whatever_the_recipe(compares: bool) -> None:
    """Gradients of 0, or nothing but invalid turns."""
    dead = {"reward": 0.0, "frac_reward_zero_std": 0.5, "grad_norm": 0.0, "invalid": 1.0}
    monitor = CollapseMonitor(compares_groups=compares)
    assert named(monitor, *[dead] * 4) == [[], [], ["no_signal", "all_invalid"], []]
    alive = CollapseMonitor(compares_groups=compares)
    assert named(alive, *[{**dead, "grad_norm": 0.1, "invalid": 0.9}] * 4) == [[]] * 4
    short = CollapseMonitor(compares_groups=compares)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        short.update(dead)
        assert short.finish() == ["no_signal", "all_invalid"]


def test_sums_in_another_order_are_no_difference() -> None:
    """The same parts of a reward, added up otherwise: no signal for anybody."""
    same = np.array([0.1, 0.1 - 1e-16, 0.3 - 0.2, 1.1 - 1.0])
    assert len(np.unique(same)) > 1
    assert all_alike(same)
    assert not all_alike(np.array([0.1, 0.10001]))
    assert not all_alike(np.array([0.0, 1e-6, np.nan]))
    scored = Scored(group_of(4), {"return": same}, Rewards(same))
    assert Dynamic().admit(scored) is None
    assert group_metrics([scored], [])["frac_reward_zero_std"] == 1
    rewards = torch.tensor([0.99999994, 1.0, 1.0, 0.99999994])
    assert not standardized(rewards, torch.zeros(4)).any()
    paid = torch.tensor([[0.1, 0.2], [0.2, 0.1], [0.3, 0.0]])
    energy = torch.full((3, 2), 0.5)
    found = otb(paid, energy.log(), energy, torch.zeros(3), torch.ones(3, 2))
    assert not found[:, 0].any()


def test_no_signal_is_named_at_the_end_of_a_short_training() -> None:
    run = trainer({**read("grpo"), "reward": []}, steps=2, tasks=2)
    with pytest.warns(CollapseWarning, match="no_signal: no group had"):
        list(run.train())
    assert run.monitor.warned == ["no_signal"]
    learns = trainer("grpo", steps=2, tasks=4)
    list(learns.train())
    assert learns.monitor.warned == []
