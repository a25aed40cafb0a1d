"""Roles besides the policy's: who may play them, whose tokens are trained on, and what the methods
that have some compute: AI-SearchPlanner, CoSearch, Search-R2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.agents import FunctionAgent
from searchgym.core import Episode, run_tools
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.llms import SftConfig
from searchgym.policies import TrainableLM
from searchgym.rl import (
    Batch,
    Estimate,
    Group,
    Output,
    OwnWeights,
    Plan,
    Played,
    Recipe,
    Rewards,
    Scored,
    TaskPlan,
    TrainConfig,
    Trainer,
    Workers,
    episode_metrics,
    make,
    pack,
    role_metrics,
    sample_batch,
    score_groups,
    unpack,
)
from searchgym.seeding import stream
from searchgym.types import CallContext, Failure, ToolCall
from searchgym_agents.methods.asides import Aside, ask
from searchgym_agents.methods.cosearch import Ranked, _Ranking, clusters, ndcg, order_of
from searchgym_agents.methods.search_r2_refiner import cut_of
from tests.rl import colours, lookup
from tests.rl.lookup import shelf
from tests.rl.tiny import taught

NEEDED = {"ai_searchplanner": "generator", "cosearch": "ranker", "search_r2_refiner": "refiner"}


def says(text: str) -> FunctionAgent:
    """An agent that always writes the same."""

    def always(request: Any) -> str:
        return text

    return FunctionAgent(always)


def trainer(recipe: Any, env: SearchEnv | None = None, seed: int = 1, **given: Any) -> Trainer:
    made = Recipe.of(recipe)
    lm, policy = lookup.player(0)
    config = TrainConfig.of(made, steps=1, tasks=2, lr=1e-3, seed=seed)
    given = {"roles": lookup.roles_of(made), **given}
    return Trainer(env or lookup.setting(), lm, made, config, policy=policy, **given)


def workers(env: SearchEnv | None = None, **roles: Any) -> Workers:
    lm, policy = lookup.player(0)
    return Workers(policy, env or lookup.setting(), lm, roles=roles)


def plans(env: SearchEnv, count: int = 2) -> list[TaskPlan]:
    return [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(env.tasks[:count])]


# --- who plays what ---------------------------------------------------------------------------
@pytest.mark.parametrize(("recipe", "role"), NEEDED.items())
def test_a_role_that_is_not_given_is_refused_by_name(recipe: str, role: str) -> None:
    with pytest.raises(CardError, match=f"plays with a '{role}', which is not given: .*-s roles"):
        trainer({**Recipe.of(recipe).table, "advantage": "grpo"}, roles={})
    with pytest.raises(CardError, match=f"-s roles.{role}=MODEL"):
        Plan.of(recipe, "model", {})
    plan = Plan.of(recipe, "model", {}, roles={role: "other"})
    assert plan.roles == {role: "other"}
    with pytest.raises(CardError, match=f"nobody plays the role '{role}'"):
        workers().agent(role)


def test_roles_that_do_not_fit_are_refused() -> None:
    table = {**Recipe.of("ai_searchplanner").table, "advantage": "grpo"}
    with pytest.raises(CardError, match="asks for no roles: 'ranker'"):
        trainer("grpo", roles={"ranker": "shared"})
    with pytest.raises(CardError, match="Did you mean 'generator'"):
        trainer(table, roles={"generator": says("x"), "generatr": says("x")})
    with pytest.raises(CardError, match="does not train its 'generator': give an agent"):
        trainer(table, roles={"generator": "shared"})
    with pytest.raises(CardError, match="is an agent or 'shared', got 'mine'"):
        trainer("cosearch", roles={"ranker": "mine"})
    with pytest.raises(CardError, match="is no agent"):
        trainer("cosearch", roles={"ranker": object()})
    lm, policy = lookup.player(0)
    with pytest.raises(CardError, match="the weights in training: say so"):
        Trainer(lookup.setting(), lm, "cosearch", policy=policy, roles={"ranker": lm.policy()})
    with pytest.raises(CardError, match="weights in training: give an agent over a copy"):
        Trainer(lookup.setting(), lm, table, policy=policy, roles={"generator": lm.policy()})


def weights(lm: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in lm.parameters()])


def test_a_frozen_roles_weights_do_not_move() -> None:
    """Byte for byte, and its tokens are in no batch; the policy's move."""
    frozen, generator = lookup.player(5)
    before = weights(frozen)
    table = {**Recipe.of("ai_searchplanner").table, "advantage": "grpo"}
    run = trainer(table, roles={"generator": generator})
    start = weights(run.lm)
    (step,) = run.train()
    assert not torch.equal(start, weights(run.lm))
    assert torch.equal(before, weights(frozen))
    assert step["trajectories"] == step["episodes"] == 16
    assert not any(name.startswith("roles/") for name in step)


# --- rows, advantages and losses by role ------------------------------------------------------
def of_roles(roles: Sequence[str], siblings: Sequence[int], rewards: Sequence[float]) -> Batch:
    """One group whose members have these roles, one token each."""
    batch = sample_batch(0, one_token=True).take(range(len(roles)))
    members = [replace(m, role=r) for m, r in zip(batch.members, roles, strict=True)]
    ones = torch.ones_like(batch.mask)
    return replace(
        batch, members=members, siblings=torch.tensor(siblings), group=batch.group * 0,
        reward=torch.tensor(rewards), mask=ones,
    )  # fmt: skip


ROLES = ["policy", "policy", "ranker", "ranker", "ranker", "ranker", "ranker"]
SIBLINGS = [0, 1, -1, -1, -2, -2, -3]


def test_no_role_is_in_anothers_baseline() -> None:
    """The policy's are one group whatever their sub-groups; rankings are compared within their
    cluster, and one alone gets 0."""
    batch = of_roles(ROLES, SIBLINGS, [1.0, 0.0, 0.2, 0.4, 0.9, 0.9, 0.7])
    half = math.sqrt(0.5)
    found = make("advantage", "by_role").estimate(batch, {}).adv.tolist()
    assert found == pytest.approx([half, -half, -half, half, 0, 0, 0], abs=1e-4)
    order = [4, 2, 6, 0, 5, 1, 3]
    again = make("advantage", "by_role").estimate(batch.take(order), {}).adv.tolist()
    assert again == pytest.approx([found[i] for i in order], abs=1e-6)


def test_role_masks_are_disjoint_and_complete() -> None:
    """A loss kept to one role has no gradient elsewhere, and those of all roles have the whole's
    where tokens are summed."""
    batch = of_roles(ROLES, SIBLINGS, [1.0] * 7)
    batch = replace(batch, credit=Estimate(torch.arange(1.0, 8.0)), old_logp=batch.sampled_logp)

    def gradient(role: str) -> torch.Tensor:
        loss = make("loss", {"use": "among", "members": ["played", "expert", "replayed"],
                             "role": role, "loss": "reinforce"})  # fmt: skip
        logp = batch.sampled_logp.clone().requires_grad_()
        ready = replace(batch, notes=dict(loss.prepare(batch, None, {})))
        value, _ = loss(Output(logp), ready, batch.totals, {})
        return torch.autograd.grad(value, logp)[0]

    parts = [gradient(role) != 0 for role in ("policy", "ranker")]
    assert not (parts[0] & parts[1]).any()
    assert torch.equal(parts[0] | parts[1], batch.mask)
    assert torch.equal(parts[0].any(1), batch.of_role("policy"))


def test_an_estimator_is_kept_to_a_role() -> None:
    batch = of_roles(ROLES, SIBLINGS, [1.0, 0.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    spec = {"use": "among", "members": ["played", "expert", "replayed"], "role": "policy"}
    found = make("advantage", spec).estimate(batch, {}).adv
    assert found[:2].tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], abs=1e-4)
    assert not found[2:].any()


def test_roles_cross_processes() -> None:
    """And the metrics of episodes are the policy's alone."""
    (group,) = make("rollout", {"use": "ranked", "size": 2, "keep": 2}).collect(
        plans(shelf(), 1), workers(shelf(), ranker="shared")
    )
    again = unpack(group.plan, pack(group))
    assert [(m.role, m.serves) for m in again.members] == [
        (m.role, m.serves) for m in group.members
    ]
    assert [m.role for m in again.members] == ["policy", "policy", "ranker", "ranker"]
    assert again.members[3].episode.config.task.meta == group.members[3].episode.config.task.meta


# --- AI-SearchPlanner -------------------------------------------------------------------------
def colour(*texts: str) -> Played:
    """An episode about a thing that is blue."""
    made = Episode(replace(colours.episode(colours.TASKS[0]).config, rules=patient().rules))
    for text in texts:
        made.act(text)
        run_tools([made], patient().toolbox)
    assert made.phase == "done"
    return Played(made, ())


@cache
def patient() -> SearchEnv:
    return SearchEnv(
        corpus=colours.CORPUS, tasks=list(colours.TASKS), dialect="plain", k=1, max_turns=6
    )


ASK, RIGHT, WRONG = "search: Aldor", "answer: blue", "answer: red"


def gains(members: Sequence[Played], scores: Sequence[float], **options: float) -> list[float]:
    group = Group(TaskPlan(colours.TASKS[0], "0", 0), tuple(members))
    made = make("reward", {"use": "gain", **options})
    return made.apply(group, {}, Rewards(np.array(scores)), {}).outcome.tolist()


def test_a_plan_is_worth_what_it_adds_to_the_better_baseline() -> None:
    alone, naive = (replace(m, purpose="baseline") for m in (colour(WRONG), colour(ASK, RIGHT)))
    same, none, twice = colour(ASK, RIGHT), colour(WRONG), colour(ASK, ASK, RIGHT)
    members, scores = [same, none, twice, alone, naive], [1.0, 0.0, 1.0, 0.0, 1.0]
    assert gains(members, scores, cost=0, process=0) == [0, -1, 0, 0, 1]
    # the second search shows nothing new: 1 of 2 turns was of use
    found = gains(members, scores, cost=0.02, process=0.1)
    assert found == pytest.approx([0.1 - 0.02, -1, 0.05 - 0.04, 0, 1])


def test_dearer_queries_never_lead_to_more_of_them() -> None:
    """The best of four plans, as α sweeps."""
    members = [colour(*[ASK] * n, RIGHT) for n in range(4)]
    scores = [0.0, 0.5, 0.54, 0.56]
    best = [
        int(np.argmax(gains(members, scores, cost=cost, process=0)))
        for cost in (0, 0.02, 0.03, 0.05, 0.3, 0.6)
    ]
    assert best == [3, 2, 2, 1, 1, 0]


def sees_blue(prompt: str) -> str:
    """A reader that answers by itself what it was shown, in no dialect."""
    return "blue" if "is blue" in prompt else "nothing"


def test_the_generator_ends_the_episode() -> None:
    """Its answer stands in place of the policy's last turn, whose tokens are trained on."""
    lm, policy = colours.player(2)
    there = Workers(policy, colours.setting(), lm, roles={"generator": FunctionAgent(sees_blue)})
    groups = make("rollout", {"use": "planned", "size": 4}).collect(plans(there.env), there)
    for group in groups:
        *own, alone, naive = group.members
        assert [m.purpose for m in own] == ["train"] * 4
        assert alone.episode.answer == "nothing"
        assert alone.episode.queries == 0
        assert naive.episode.queries == 1
        assert naive.episode.turns[0].action.queries[0].rstrip("?") == group.plan.task.queries[0]
        assert naive.episode.answer == "blue"
        for member in own:
            shown = any(t.results for t in member.episode.turns)
            assert member.episode.answer == ("blue" if shown else "nothing")
            assert len({u for r in member.rows for u in r.turn_uids}) == len(member.episode.turns)
            assert member.since == 0
        assert (alone.rows, naive.rows) == ((), ())


# --- CoSearch ---------------------------------------------------------------------------------
def test_clusters_of_queries() -> None:
    assert clusters(["a b", "a b", "c d", "a b"], 0.7) == [0, 0, 1, 0]
    assert clusters(["one", "two", "three"], 0.7) == [0, 1, 2]
    # F1 .8 from one to the next, less from end to end: single links
    chain = ["p q r s t", "q r s t u", "r s t u v"]
    assert clusters(chain, 0.8) == [0, 0, 0]
    assert clusters([chain[0], chain[2]], 0.8) == [0, 1]
    assert clusters([chain[0], chain[2], chain[1]], 0.8) == [0, 0, 0], "the order is of no account"


def ranking(text: str, keep: int = 3) -> Episode:
    meta = {"query": "q", "passages": ["a", "b", "gold", "c"], "keep": keep}
    (found,) = ask(
        "ranker", [Aside("r", 0, "which?", "3", ("gold",), meta)], workers(ranker=says(text))
    )
    return found


@pytest.mark.parametrize(
    ("text", "order", "quality"),
    [
        ("answer: 3 1 2", [2, 0, 1], 1.0),
        ("answer: [3]", [2], 1.0),
        ("answer: 1, 3, 2, 4", [0, 2, 1], 1 / math.log2(3)),
        ("answer: 1 2", [0, 1], 0.0),
        ("answer: 3 5", None, 0.5),  # the engine's order has it in the third place
        ("answer: 3 3", None, 0.5),
        ("answer: 0", None, 0.5),
        ("answer: none", None, 0.5),
        ("3 1 2", None, 0.5),
    ],
)
def test_orders_are_of_passages_that_were_shown(
    text: str, order: list[int] | None, quality: float
) -> None:
    assert order_of(ranking(text)) == order
    assert ndcg(ranking(text)) == pytest.approx(quality)


def test_a_ranking_is_paid_for_itself_and_for_what_came_of_it() -> None:
    own = colour(ASK, RIGHT)
    name = own.episode.config.episode_id
    served = [
        Played(ranking(text), (), role="ranker", serves=name)
        for text in ("answer: 3", "answer: 1 3", "answer: none")
    ]
    lost = Played(ranking("answer: 3"), (), role="ranker", serves="elsewhere")
    group = Group(TaskPlan(colours.TASKS[0], "0", 0), (own, *served, lost))
    earned = Rewards(np.array([0.8, 0.0, 0.0, 1.0, 0.0]))
    found = make("reward", "ranking").apply(group, {}, earned, {}).outcome
    assert found.tolist() == pytest.approx(
        [0.8, 0.5 + 0.4, 0.5 / math.log2(3) + 0.4, 0.25 + 0.4 - 0.1, math.nan], nan_ok=True
    )
    paid = make("reward", {"use": "served", "role": "ranker", "weight": 0.5})
    unknown = Rewards(np.array([0.8, math.nan, 0.0, 0.0, 0.0]))
    for reward in (make("reward", "ranking"), paid):
        assert math.isnan(reward.apply(group, {}, unknown, {}).outcome[1])
    again = paid.apply(group, {}, earned, {}).outcome
    assert again.tolist() == pytest.approx([0.8, 0.4, 0.4, 0.4, math.nan], nan_ok=True)


def chooses(place: int) -> Callable[[Any], str]:
    def answer(request: Any) -> str:
        return f"answer: {place}"

    return answer


def test_the_oracle_ranker_finds_more_than_the_engines_order() -> None:
    """The policy tells what it is shown: with the right passage first it is right."""

    def right(place: int) -> float:
        there = workers(shelf(), ranker=FunctionAgent(chooses(place)))
        groups = make("rollout", {"use": "ranked", "size": 4, "keep": 1}).collect(
            plans(shelf(), 6), there
        )
        assert all(m.role == "policy" for g in groups for m in g.members), "it is not trained"
        shown = {len(r.hits) for g in groups for m in g.members for t in m.episode.turns
                 for r in t.results}  # fmt: skip
        assert shown == {1}
        return float(np.mean([m.episode.turns[-1].reward for g in groups for m in g.members]))

    assert right(4) > 0.8 > 0.2 > right(1)


@pytest.mark.slow  # a whole training
def test_a_ranker_of_its_own_closes_the_gap_to_the_oracle() -> None:
    """Where the engine puts what helps third, which only a ranker can find out: one that names a
    number at random learns it beside the policy, which tells what it is shown."""
    env, prompts = shelf(3), []

    def reads(request: Any) -> str:
        prompts.append("".join(s.text for s in request.segments if s.kind != "instructions"))
        return "answer: 1"

    def right(who: Any) -> float:
        made = make("rollout", {"use": "ranked", "size": 6, "keep": 1})
        lm, policy = lookup.player(7)
        groups = made.collect(plans(env, 8), Workers(policy, env, lm, roles={"ranker": who}))
        ends = [m.episode.turns[-1].reward for g in groups for m in g.members if m.role == "policy"]
        return float(np.mean(ends))

    engine, oracle = right(FunctionAgent(reads)), right(FunctionAgent(chooses(3)))
    draw = stream(3, "warm")
    numbers = [(p, f"answer: {int(draw.integers(4)) + 1}") for p in prompts]
    warm = SftConfig(steps=120, batch=16, lr=1e-2, prompt_weight=0.0)
    model = lookup.player(0)[0].model
    model.load_state_dict(taught(model, lookup.tokenizer(), numbers, warm))
    lm = TrainableLM(model, lookup.tokenizer())
    own = OwnWeights(lm, lm.policy("bare", sampling=lookup.SAMPLING))
    before = right(own.policy)
    table = {**Recipe.of("cosearch").table, "rollout": {"use": "ranked", "size": 6, "keep": 1}}
    config = TrainConfig(steps=25, tasks=6, lr=4e-3, seed=1)
    policy_lm, policy = lookup.player(0)
    run = Trainer(env, policy_lm, table, config, policy=policy, roles={"ranker": own})
    list(run.train())
    best = max(engine, before)
    assert best < 0.5 < 0.9 < oracle
    assert right(own.policy) - best > 0.3 * (oracle - best)


def test_a_shared_ranker_trains_the_same_weights() -> None:
    """Its rankings are members of the group, in sub-groups of their own, and the step is none of
    GRPO's; the environment's rewards are of the policy's episodes alone."""
    rollout = {"use": "ranked", "size": 4, "keep": 2}
    groups = make("rollout", rollout).collect(plans(shelf(2)), workers(shelf(2), ranker="shared"))
    for group in groups:
        policy = {m.episode.config.episode_id for m in group.members if m.role == "policy"}
        rankings = [m for m in group.members if m.role == "ranker"]
        assert len(policy) == len(rankings) == 4
        assert {m.serves for m in rankings} == policy
        assert all(m.rows and m.siblings < 0 for m in rankings)
        for m in rankings:
            query = m.episode.config.task.meta["query"]
            same = {o.siblings for o in rankings if o.episode.config.task.meta["query"] == query}
            assert same == {m.siblings}
    size = len(groups[0].members)
    scored = [Scored(g, {}, Rewards(np.arange(float(size)))) for g in groups]
    batch = Batch.of(scored)
    assert batch is not None
    assert int(batch.of_role("ranker").sum()) == 8

    after = []
    for recipe in ("cosearch", "grpo"):
        table = {**Recipe.of(recipe).table, "rollout": rollout, "env": {}}
        run = trainer(table, shelf(2), seed=5)  # one whose rewards differ
        (step,) = run.train()
        assert step["episodes"] == 8
        assert step["roles/ranker/episodes"] == 8
        assert step["trajectories"] == 16
        after.append(weights(run.lm))
    start = weights(lookup.player(0)[0])
    assert (after[0] - after[1]).abs().max() > 0.02 * (after[1] - start).abs().max()


def down(request: Any) -> Any:
    """A service that cannot be reached."""
    return Failure("unavailable", "no answer")


def test_a_ranker_that_cannot_be_reached_fails_the_search() -> None:
    """The engine's order is no ranking: the episode is lost, counted, and not trained on."""
    there = workers(shelf(), ranker=FunctionAgent(down))
    rollout = {"use": "ranked", "size": 4, "keep": 2}
    groups = make("rollout", rollout).collect(plans(shelf()), there)
    searched = [m for g in groups for m in g.members if m.episode.turns[0].calls]
    assert searched
    assert all(m.broken for m in searched)
    recipe = Recipe.of({**Recipe.of("cosearch").table, "rollout": rollout})
    for s in score_groups(recipe, groups, there):
        assert not any(s.group.members[i].broken for i in s.training)
    scored = score_groups(recipe, groups, there)
    assert episode_metrics(scored)["infra_errors"] == len(searched)


def test_each_ranking_has_a_name_of_its_own() -> None:
    """Also where two searches of a turn are ranked, and the first must be asked for again."""
    names: list[str] = []

    def busy_at_first(request: Any) -> Any:
        names.append(request.episode_id)
        return Failure("unavailable", "busy") if len(names) == 1 else "answer: 2 1"

    env = shelf()
    there = workers(env, ranker=FunctionAgent(busy_at_first))
    played = env.start(0, task=env.tasks[0], episode_id="e")
    tools = _Ranking(Ranked(size=2, keep=2), there, {"e": played})
    context = CallContext(1, "e", {}, task=env.tasks[0])
    calls = [ToolCall("search", {"query": f"q{i}"}, i, context) for i in range(2)]
    first, second = tools.run(calls)
    assert isinstance(first, Failure)
    assert not isinstance(second, Failure)
    (again,) = tools.run(calls[:1])
    assert not isinstance(again, Failure)
    assert len(names) == len(set(names)) == 3


# --- Search-R2 --------------------------------------------------------------------------------
def judged(text: str) -> list[Group]:
    there = workers(refiner=says(text))
    return make("rollout", {"use": "refined", "size": 4}).collect(plans(there.env), there)


def test_a_chain_that_is_accepted_is_left_as_it_is() -> None:
    chains = make("rollout", {"use": "chains", "size": 2})
    plain = chains.collect(plans(lookup.setting()), workers())
    for text in ("answer: accept", "answer: 7", "no idea"):
        for group, same in zip(judged(text), plain, strict=True):
            assert [m.episode.snapshot() for m in group.members] == [
                m.episode.snapshot() for m in same.members
            ]


def test_a_chain_is_cut_before_the_turn_that_went_wrong() -> None:
    for group in judged("answer: 2"):
        for first, second in zip(group.members[:2], group.members[2:], strict=True):
            assert second.parent in (0, 1)
            parent = group.members[second.parent].episode
            assert second.since == 1
            assert second.episode.turns[0].text == parent.turns[0].text
            assert [s for s in second.episode.contexts.segments if s.author == "env"][:3] == [
                s for s in parent.contexts.segments if s.author == "env"
            ][:3]
            assert all(int(u.rpartition("/")[2]) >= 1 for r in second.rows for u in r.turn_uids)
            assert first.role == second.role == "policy"


@pytest.mark.parametrize(
    ("text", "turn"),
    [("answer: accept", None), ("answer: 1", 0), ("answer: cut before turn 2", 1),
     ("answer: 3", None), ("answer: 0", None), ("answer: Accepted, not 1", None),
     ("answer: unacceptable: turn 2 went wrong", 1)],
)  # fmt: skip
def test_judgements(text: str, turn: int | None) -> None:
    aside = Aside("j", 0, "well?", "accept", meta={"turns": 2})
    (verdict,) = ask("refiner", [aside], workers(refiner=says(text)))
    assert cut_of(verdict) == turn


def test_a_judgement_serves_what_came_of_it() -> None:
    groups = make("rollout", {"use": "refined", "size": 4}).collect(
        plans(lookup.setting()), workers(refiner="shared")
    )
    for group in groups:
        names = [m.episode.config.episode_id for m in group.members if m.role == "policy"]
        verdicts = [m for m in group.members if m.role == "refiner"]
        assert len(verdicts) == 2
        assert all(m.serves in names and m.rows for m in verdicts)


def test_a_refiner_that_cannot_be_reached_is_counted() -> None:
    """Its chains stay as they are; a frozen one has no rows all the same."""
    there = workers(refiner=FunctionAgent(down))
    groups = make("rollout", {"use": "refined", "size": 4}).collect(plans(there.env), there)
    judgements = [m for g in groups for m in g.members if m.role == "refiner"]
    assert len(judgements) == 4
    assert all(m.broken and not m.rows for m in judgements)
    scored = score_groups(Recipe.of("search_r2_refiner"), groups, there)
    assert all(s.group.members[i].role == "policy" for s in scored for i in s.training)
    found = role_metrics(scored)
    assert found["roles/refiner/episodes"] == 0
    assert found["roles/refiner/infra_errors"] == 4
