"""Our trainer takes the same curricula as environments do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError
from searchgym.rl.data import ByCurriculum
from searchgym.rl.recipe import Recipe, read
from searchgym.rl.rollouts.chains import start
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.records import Group, Played, Rewards, Scored, TaskPlan, Workers
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import TASKS, player, setting
from tests.small import CORPUS
from tests.small import TASKS as TWO


def data(**curriculum: Any) -> ByCurriculum:
    made: ByCurriculum = make("data", {"use": "curriculum", "curriculum": curriculum})
    return made


def test_the_turn_budget_grows_with_training_steps() -> None:
    """With one turn nobody can search; ScalingInter gives a second one at step 2."""
    lm, policy = player(1)
    curriculum = {"use": "scaling_inter", "rounds": [1, 2], "every": 2}
    table = {**read("grpo"), "data": {"use": "curriculum", "curriculum": curriculum}}
    recipe = Recipe.of(table)
    config = TrainConfig.of(recipe, steps=4, tasks=2, lr=1e-4, seed=1)
    trainer = Trainer(setting(), lm, recipe, config, policy=policy)
    searches = [metrics["searches"] for metrics in trainer.train()]
    assert searches[:2] == [0, 0]
    assert min(searches[2:]) > 0


def test_plans_hold_whole_axes_and_tasks_within_them() -> None:
    policy = data(
        use="scheduled", params={"hops": {"kind": "linear", "start": 1, "end": 2, "total": 4}}
    )
    found = {step: policy.plan(list(TWO), 12, step, 0) for step in (0, 3, 4)}
    for step, plans in found.items():
        assert {p.params["hops"] for p in plans} == {1 if step < 4 else 2}
        assert {p.task.id for p in plans} == ({"t2"} if step < 4 else {"t1", "t2"})
    with pytest.raises(CardError, match="'hops' is a whole number"):
        data(use="uniform", params={"hops": 0}).plan(list(TWO), 1, 0, 0)


def workers(**options: Any) -> Workers:
    lm, policy = player(0)
    keywords = {"corpus": CORPUS, "tasks": list(TWO), "dialect": "plain", **options}
    return Workers(policy, SearchEnv(**keywords), lm)


def test_members_play_by_the_plans_difficulty() -> None:
    plan = TaskPlan(TWO[0], "0.0", 7, {"turns": 3, "top_k": 1, "cost": 0.5})
    config = start(plan, workers(), "0", 0).config
    assert (config.rules.max_turns, config.rules.k) == (3, 1)
    assert config.params == {"turns": 3, "top_k": 1, "cost": 0.5, "w_search": -0.5}
    with pytest.raises(CardError, match="BM25Engine gives no noisy results"):
        start(TaskPlan(TWO[0], "0.0", 7, {"noise": 0.5}), workers(), "0", 0)


def scored(plan: TaskPlan, *rewards: float) -> Scored:
    at = workers()
    members = tuple(Played(start(plan, at, str(i), i), ()) for i in range(len(rewards)))
    return Scored(Group(plan, members), {}, Rewards(np.array(rewards)))


def test_a_pool_sees_the_latest_group_and_what_cannot_be_scored_is_left_out() -> None:
    policy = data(use="pool")
    plan = TaskPlan(TWO[0], "0.0", 7)
    pool: Any = policy.curriculum
    nan = float("nan")
    for rewards, name in (((1.0, 1.0), "easy"), ((nan, 0.0), "hard"), ((0.0, 1.0), "normal")):
        policy.observe(scored(plan, *rewards))
        assert pool.pool("t1") == name
    policy.observe(scored(plan, nan, nan))
    assert list(pool.returns["t1"]) == [0.5]
    copy = data(use="pool")
    copy.load_state_dict(policy.state_dict())
    assert copy.state_dict() == policy.state_dict()


def test_a_band_is_told_what_each_group_was_played_with() -> None:
    policy = data(use="band", levels=[{"turns": 3}, {"turns": 4}], episodes=2)
    (plan,) = policy.plan(list(TWO), 1, 0, 0)
    assert plan.params == {"turns": 3}
    band: Any = policy.curriculum
    for level, seen in ((0, 1), (1, 0), (1, 0)):  # a group is one; of the level before, none
        policy.observe(scored(plan, 1.0, 1.0, 1.0, 1.0))
        assert (band.level, band.seen) == (level, seen)


def test_a_group_moves_a_success_rate_once() -> None:
    """By the group's mean, in whatever order its members come."""
    plan = TaskPlan(TWO[0], "0.0", 7)
    for rewards in ((0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 0.0, 0.0), (1.0, 0.0, 1.0, 0.0)):
        policy = data(use="self_paced")
        paced: Any = policy.curriculum
        policy.observe(scored(plan, *rewards))
        assert paced.success == {"t1": 0.5}


def test_tasks_that_change_are_a_new_pool() -> None:
    policy = data(use="uniform", params={"hops": 1})
    long = [replace(t, id=f"{t.id}-2", hops=2) for t in TASKS]
    assert policy.plan(list(TASKS), 4, 0, 0)
    with pytest.raises(CardError, match="no task is within hops 1"):
        policy.plan(long, 4, 1, 0)


def test_a_data_policy_sees_the_world() -> None:
    """The trainer hands the environment to the plan; this policy asks about rare things only."""
    from searchgym.rl.data import UniformTasks

    seen: list[Any] = []

    class Rare(UniformTasks):
        def choose(self, tasks: Any, key: int, seed: int) -> Any:
            seen.append(self.env)
            world = self.env.world
            names = {world.titles[e] for e in world.entities_of(world.schema.type_index("film"))}
            films = [t for t in tasks if any(n.value in names for n in t.graph.nodes)]
            return films[key % len(films)], {}

    lm, policy = player(1)
    keywords = {"world": {"entities": 300}, "tasks": {"simple": 40}, "dialect": "plain"}
    table = {**read("grpo"), "data": Rare()}
    recipe = Recipe.of(table)
    config = TrainConfig.of(recipe, steps=1, tasks=2, lr=1e-4, seed=1)
    trainer = Trainer(SearchEnv(**keywords), lm, recipe, config, policy=policy)
    list(trainer.train())
    assert len(seen) == 2
    for part in ("tasks", "corpus", "world", "engine", "toolbox", "rules"):
        assert getattr(seen[0], part) is not None
