"""Groups are the same whether or not episodes wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

from searchgym.errors import EngineError
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.records import Group, TaskPlan, Workers
from tests.rl.colours import player, setting


def groups(chains: Chains) -> list[Group]:
    lm, policy = player(0)
    made = setting()
    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(made.tasks[:3])]
    return chains.collect(plans, Workers(policy, made, lm))


def test_the_same_groups_are_played_where_nobody_waits() -> None:
    for one, other in zip(groups(Chains(4)), groups(Chains(4, flow=True)), strict=True):
        assert len(one.members) == len(other.members) == 4
        for a, b in zip(one.members, other.members, strict=True):
            assert a.episode.snapshot() == b.episode.snapshot()
            for x, y in zip(a.rows, b.rows, strict=True):
                np.testing.assert_array_equal(x.ids, y.ids)
                np.testing.assert_allclose(x.logp, y.logp, atol=1e-4)


def test_what_cannot_flow_says_so() -> None:
    with pytest.raises(ValueError, match="not both"):
        Chains(4, greedy_twin=True, flow=True)
    lm, policy = player(0)
    policy.refresh = lambda: None
    plan = TaskPlan(setting().tasks[0], "0.0", 0)
    with pytest.raises(EngineError, match="flow=True"):
        Chains(2, flow=True).collect([plan], Workers(policy, setting(), lm))
