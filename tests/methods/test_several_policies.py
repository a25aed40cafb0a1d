"""Systems of several policies, of sets and of teachers: the numbers of their formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from searchgym.agents import FunctionAgent
from searchgym.engines import build_engine
from searchgym.errors import CardError, EngineError
from searchgym.rewards import Reward
from searchgym.rl import (
    Group,
    OwnWeights,
    Played,
    Recipe,
    Rewards,
    TaskPlan,
    TrainConfig,
    Trainer,
    Workers,
    make,
    sample_batch,
)
from searchgym.types import CallContext, Hit, Passage, Query
from searchgym_agents.methods.acqo import HardTasks, optimistic, quality, rank_score_fusion
from searchgym_agents.methods.adasearch import known
from searchgym_agents.methods.david_grpo import last_fruitful
from searchgym_agents.methods.router_r1 import RoutedReward, thrift
from searchgym_agents.methods.vpo import set_reward
from tests.rl import lookup
from tests.rl.learners import taught
from tests.rl.trainers import weights
from tests.small import CORPUS, TASKS, episode, play

# --- HierSearch -------------------------------------------------------------------------------


def paid(reward: Any, *texts: str, **rules: Any) -> float:
    e = episode(reward=Reward.of(reward), dialect="search_r1+access+tools", max_turns=9, **rules)
    play(e, *texts)
    return sum(t.reward for t in e.turns)


SEARCH, ACCESS = "<search>Aldor</search>", "<access>https://w.example/Aldor</access>"
WRONG, RIGHT = "<answer>Paris</answer>", "<answer>Quell</answer>"


@pytest.mark.parametrize(
    ("texts", "earned"),
    [((SEARCH, ACCESS, WRONG), 0.2 / 3), ((SEARCH, SEARCH, WRONG), 0.1 / 3), ((WRONG,), 0.0),
     ((SEARCH, RIGHT), 1.0), (("no action", SEARCH, RIGHT), 0.0), ((SEARCH,) * 9, 0.0)],
)  # fmt: skip
def test_tools_are_paid_where_the_answer_is_wrong(texts: Sequence[str], earned: float) -> None:
    assert paid("hiersearch", *texts) == pytest.approx(earned)


def test_hiersearch_trains_three_policies() -> None:
    """A planner and an agent, each with an optimizer of its own."""
    from tests.rl import handed

    recipe = Recipe.of("hiersearch")
    assert set(recipe.env["delegate"]) == {"local", "web", "planner"}
    lm, policy, looker = handed.players()
    config = TrainConfig.of(recipe, steps=1, tasks=6, lr=1e-3)
    env = handed.setting().under(reward="hiersearch")
    run = Trainer(env, lm, recipe, config, policy=policy, roles={"looker": looker})
    before = weights(looker.lm)
    (step,) = run.train()
    assert step["roles/looker/grad_norm"] > 0
    assert not torch.equal(before, weights(looker.lm))


# --- Router-R1 --------------------------------------------------------------------------------
def test_thrift_table() -> None:
    window = [1.0, 2.0, 3.0, 4.0]
    found = [thrift(cost, window) for cost in window]
    assert found == pytest.approx([1, 0.6078, 0.2537, 0], abs=5e-5)
    assert thrift(7.0, [2.0, 2.0]) == 0.5


def routed(*texts: str, outcome: float = 1.0, **options: Any) -> tuple[float, RoutedReward]:
    e = episode(max_turns=9)
    play(e, *texts)
    made = RoutedReward(**{"prices": {"a": 1.0, "b": 4.0}, **options})
    made.costs.extend([1.0, 2.0, 3.0])
    group = Group(TaskPlan(TASKS[0], "0", 1), (Played(e, ()),))
    return float(made.apply(group, {}, Rewards(np.array([outcome])), {}).outcome[0]), made


def test_unknown_models_and_bad_form_earn_minus_one() -> None:
    ask = "<search> b: Aldor </search>"
    assert routed(ask, RIGHT)[0] == 1.0, "alpha is 0"
    for texts in (("<search> c: Aldor </search>", RIGHT), ("<search> Aldor </search>", RIGHT),
                  ("hm", RIGHT)):  # fmt: skip
        assert routed(*texts)[0] == -1.0
    value, made = routed(ask, RIGHT, alpha=0.5)
    assert value == pytest.approx(0.5)  # the dearest of four
    assert routed(ask, WRONG, outcome=0.0, alpha=0.5)[0] == 0.0, "no credit for a wrong answer"
    again = RoutedReward(prices={"a": 1.0})
    again.load_state_dict(made.state_dict())
    assert list(again.costs) == [1.0, 2.0, 3.0, 4.0]


def test_a_pool_asks_whom_the_query_names() -> None:
    pool = build_engine({"name": "pool", "models": {"plain": "bm25", "same": "bm25"}}, CORPUS)
    bm25 = build_engine("bm25", CORPUS)
    texts = ["plain: Aldor", "Aldor", "nobody: Aldor", "same: painter"]
    asked = [Query(text, 2, CallContext(1, "e", {})) for text in texts]
    found = pool.run(asked)
    inner = bm25.run(
        [q._replace(text=t) for q, t in zip(asked, ("Aldor", "", "", "painter"), strict=True)]
    )
    assert found[0] == inner[0] != ()
    assert found[3] == inner[3] != ()
    assert found[1] == inner[0], "the first one's"
    assert found[2] == ()
    keys = {pool.cache_key(q) for q in asked}
    assert len(keys) == 3
    with pytest.raises(EngineError, match="names without colons"):
        build_engine({"name": "pool", "models": {"a:b": "bm25"}}, CORPUS)


# --- ACQO -------------------------------------------------------------------------------------
def ranking(*names: str) -> tuple[Hit, ...]:
    return tuple(Hit(Passage(n, n, n, ""), 1.0 / (i + 1)) for i, n in enumerate(names))


def test_fusion_is_by_rank_and_score() -> None:
    """Where reciprocal ranks would put d2, which both lists hold, first."""
    fused = rank_score_fusion([ranking("d1", "d2"), ranking("d2", "d3")], 3, mean="harmonic")
    assert [h.passage.id for h in fused] == ["d1", "d2", "d3"]


@given(st.lists(st.permutations("abcdef").map(lambda p: ranking(*p[:4])), min_size=1, max_size=3),
       st.sets(st.sampled_from("abcdef"), min_size=1))  # fmt: skip
def test_the_best_subset_is_at_least_as_good_as_all(lists: Any, gold: set[str]) -> None:
    best = optimistic(lists, sorted(gold))
    assert best >= quality(lists, sorted(gold)) - 1e-12
    assert best >= max(quality([one], sorted(gold)) for one in lists) - 1e-12
    assert 0 <= best <= 1


def test_stages_pay_the_subset_then_the_fusion() -> None:
    e = episode(max_turns=9, max_parallel=3, dialect="search_r1+parallel")
    play(e, "<search> Quell town people Aldor ## Osten river </search>", WRONG)
    group = Group(TaskPlan(TASKS[0], "0", 1), (Played(e, ()),))
    made = make("reward", "fused")

    def earned(stage: float) -> float:
        coef = {"fused": stage}
        return float(made.apply(group, {}, Rewards(np.array([0.0])), coef).outcome[0])

    assert earned(0.0) > earned(1.0) > 0
    data = HardTasks(after=1)
    assert len({p.task.id for p in data.plan(TASKS, 4, 0, 1)}) == 2
    data.known = {TASKS[0].id: 0.9, TASKS[1].id: 0.1}
    assert {p.task.id for p in data.plan(TASKS, 4, 1, 1)} == {TASKS[1].id}
    again = HardTasks(after=1)
    again.load_state_dict(data.state_dict())
    assert again.known == data.known


# --- VPO --------------------------------------------------------------------------------------
def test_two_specialists_are_worth_more_than_two_middling_ones() -> None:
    w = np.linspace(0, 1, 20_001)
    even = np.stack([w, 1 - w], 1)  # Dirichlet(1, 1), by quadrature
    assert set_reward(np.eye(2), even) == pytest.approx(0.75, abs=1e-4)
    assert set_reward(np.full((2, 2), 0.5), even) == pytest.approx(0.5)
    assert set_reward(np.eye(2)[::-1], even) == set_reward(np.eye(2), even)


def sets_of(vectors: Sequence[Sequence[float]], per: int) -> list[float]:
    e = episode()
    play(e, RIGHT)
    members = tuple(Played(e, (), siblings=i // per) for i in range(len(vectors)))
    values = np.array(vectors, float)
    signals = {"em": values[:, 0], "evidence_recall": values[:, 1]}
    made = make("reward", {"use": "vpo", "draws": 4000})
    group = Group(TaskPlan(TASKS[0], "0", 1), members)
    return made.apply(group, signals, Rewards(np.zeros(len(members))), {}).outcome.tolist()


def test_sets_are_paid_alike_and_sets_of_one_by_the_mean_weights() -> None:
    found = sets_of([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]], 2)
    assert found[0] == found[1] == pytest.approx(0.75, abs=0.01)
    assert found[2] == found[3] == pytest.approx(0.5)
    alone = sets_of([[1, 0], [0, 1], [1, 1], [0, 0]], 1)
    assert alone == pytest.approx([0.5, 0.5, 1, 0], abs=0.02)
    assert alone[0] + alone[1] == pytest.approx(1)


def test_sets_share_an_advantage() -> None:
    rewards = torch.tensor([0.75, 0.75, 0.5, 0.5, 0.2, 0.2])
    batch = sample_batch(1).take(range(6))
    batch = replace(batch, group=torch.zeros(6).long(), reward=rewards, outcome=rewards,
                    siblings=torch.tensor([0, 0, 1, 1, 2, 2]), turn_reward=None)  # fmt: skip
    adv = make("advantage", "vpo").estimate(batch, {}).adv[:, 0].tolist()
    z = (np.array([0.75, 0.5, 0.2]) - 0.48333333) / np.std([0.75, 0.5, 0.2], ddof=1)
    assert adv == pytest.approx(np.repeat(z, 2).tolist(), abs=1e-3)


# --- teachers and near misses ------------------------------------------------------------------
def earned(member: Played) -> float:
    return sum(turn.reward for turn in member.episode.turns)


def test_a_teacher_plays_what_the_student_fails() -> None:
    """Its right episodes are members, in the student's tokens."""
    student, policy = lookup.player(0)
    teacher = taught()
    env = lookup.setting()
    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(env.tasks)]
    rollout = make("rollout", {"use": "taught", "size": 4})
    groups = rollout.collect(plans, Workers(policy, env, student, teacher))
    shown = [m for g in groups for m in g.members if m.purpose == "expert"]
    lost = [g for g in groups if max(earned(m) for m in g.members if m.purpose == "train") < 0.5]
    assert 0 < len(shown) <= len(lost) < len(groups)
    for m in shown:
        assert m.episode.answer in m.episode.config.task.answers
        assert m.unsampled
    with pytest.raises(CardError, match="no teacher plays here"):
        rollout.collect(plans[:3], Workers(policy, env, student))


def test_near_misses_go_on_after_the_last_evidence() -> None:
    texts = ("<search>Aldor founder</search>", "<search>Osten</search>", WRONG)
    e = episode(max_turns=9, reward=Reward.of({"em": 1, "evidence": 0.5}))
    play(e, *texts)
    assert last_fruitful(e) == 1
    e = episode(max_turns=9, reward=Reward.of({"em": 1, "evidence": 0.5}))
    play(e, WRONG)
    assert last_fruitful(e) == 0


def test_near_misses_are_tried_again() -> None:
    env = lookup.setting().under(max_turns=3, reward={"em": 1.0, "evidence": 0.5})
    lm, policy = lookup.player(0, temperature=3.0)
    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(env.tasks)]
    rollout = make("rollout", {"use": "near_miss", "size": 8, "solved": 2.0})
    groups = rollout.collect(plans, Workers(policy, env, lm))
    again = [(g, m) for g in groups for m in g.members if m.parent is not None]
    assert again
    for group, member in again:
        first = group.members[member.parent].episode
        assert sum(t.reward for t in first.turns) < 2
        assert member.since == last_fruitful(first) >= 1


@pytest.mark.parametrize("use", ["taught", "rescued"])
def test_a_student_imitates_what_it_could_not_do(use: str) -> None:
    """As the recipes' notes say: reinforced on its own episodes, taught by others'."""
    rollouts = {
        "taught": {"use": "taught", "size": 4},
        "rescued": {"use": "rescued", "rollout": {"use": "near_miss", "size": 4}},
    }
    recipe = {
        "rollout": rollouts[use],
        "advantage": {"use": "among", "members": "played", "base": {
            "use": "distillation", "gate": "failed", "base": "grpo"}},
        "loss": [{"use": "among", "members": "played", "loss": "ppo", "name": "policy"},
                 {"use": "among", "members": "expert", "loss": "sft", "name": "sft"}],
    }  # fmt: skip
    lm, policy = lookup.player(0)
    config = TrainConfig(steps=6, tasks=6, lr=4e-3)
    run = Trainer(lookup.setting(), lm, recipe, config, policy=policy, teacher=taught())
    steps = list(run.train())
    assert np.mean([s["em"] for s in steps[-2:]]) > 0.2 + np.mean([s["em"] for s in steps[:2]])


# --- AdaSearch --------------------------------------------------------------------------------
def test_a_decision_is_right_where_the_closed_book_is() -> None:
    env = lookup.setting()
    lm, policy = lookup.player(0)
    said: list[str] = []

    def yes(request: Any) -> str:
        said.append(next(s.text for s in request.segments if s.kind == "question"))
        return "answer: yes"

    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(env.tasks[:3])]
    there = Workers(policy, env, lm, roles={"decider": FunctionAgent(yes)})
    rollout = make("rollout", {"use": "decided", "size": 4, "closed": 2, "decisions": 2})
    groups = rollout.collect(plans, there)
    assert len(said) == 6
    assert all("without a search" in text for text in said)
    assert all(len(g.members) == 4 for g in groups), "an agent's decisions are in no batch"
    assert known(groups[0], 0.5) == (
        np.mean([m.episode.parts["em"] for m in groups[0].members[:2]]) >= 0.5
    )
    trained = rollout.collect(plans, Workers(policy, env, lm, roles={"decider": "shared"}))
    for group in trained:
        decisions = [m for m in group.members if m.role == "decider"]
        assert len(decisions) == 2
        label = "yes" if known(group, 0.5) else "no"
        assert all(m.episode.config.task.answers == (label,) for m in decisions)


def test_stages_train_solving_then_deciding() -> None:
    """As the recipe's notes say: first the policy's tokens alone, then the decider's."""
    steps = {"kind": "steps", "at": [1]}
    among = {"use": "among", "members": "played", "loss": "ppo"}
    recipe = {
        "rollout": {"use": "decided", "size": 4, "closed": 2, "decisions": 4},
        "advantage": "by_role",
        "loss": [{**among, "role": "policy", "name": "solve"},
                 {**among, "role": "decider", "name": "decide"}],
        "schedule": {"use": "scheduled", "solve": {**steps, "values": [1.0, 0.0]},
                     "decide": {**steps, "values": [0.0, 1.0]}},
    }  # fmt: skip
    lm, policy = lookup.player(0)
    roles = {"decider": OwnWeights(*lookup.player(0))}
    config = TrainConfig(steps=2, tasks=6, lr=4e-3, seed=4)
    run = Trainer(lookup.setting(), lm, recipe, config, policy=policy, roles=roles)
    first, second = run.train()
    assert first["grad_norm"] > 0 == first["roles/decider/grad_norm"]
    assert second["grad_norm"] == 0
