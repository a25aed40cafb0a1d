"""Roles with weights and an optimizer of their own: what they write trains them and nobody else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.agents import FunctionAgent
from searchgym.core import Episode, EpisodeConfig
from searchgym.dialects import get_dialect
from searchgym.errors import CardError
from searchgym.policies import TrainableLM
from searchgym.rl import OwnWeights, Plan, Recipe, TaskPlan, TrainConfig, Trainer, Workers, make
from searchgym.rl.log import LOG
from searchgym.rl.slots.batch import Batch
from searchgym.types import Delegate, Invalid
from tests.rl import handed, lookup
from tests.rl.lookup import shelf
from tests.rl.trainers import rows, weights

SHELF = {
    "rollout": {"use": "ranked", "size": 4, "keep": 2},
    "reward": ["weighted", "ranking"],
    "advantage": {"use": "by_role", "base": "grpo"},
    "loss": "ppo",
}
GRPO = {"rollout": {"use": "chains", "size": 4}, "advantage": "dr_grpo", "loss": "ppo"}


def ranked(roles: Any, out: Path | None = None, **config: Any) -> Trainer:
    lm, policy = lookup.player(0)
    options = {"steps": 2, "tasks": 3, "lr": 1e-3, "seed": 5, "save_every": 1, **config}
    recipe = {**SHELF, **options.pop("recipe", {})}
    return Trainer(
        shelf(2), lm, recipe, TrainConfig(**options), policy=policy, roles=roles, out=out
    )


def delegated(roles: Any = None, steps: int = 1, **config: Any) -> tuple[Trainer, OwnWeights]:
    lm, policy, looker = handed.players()
    options = {"steps": steps, "tasks": 3, "lr": 1e-3, "seed": 3, **config}
    roles = {"looker": looker} if roles is None else roles
    made = Trainer(handed.setting(), lm, GRPO, TrainConfig(**options), policy=policy, roles=roles)
    return made, looker


def ranker(seed: int = 0, **options: Any) -> OwnWeights:
    return OwnWeights(*lookup.player(seed), **options)


def batches(run: Trainer) -> list[Batch]:
    """The batches of a training, collected while it goes on."""
    seen: list[Batch] = []
    update = run.updater.update

    def watched(batch: Batch, *rest: Any) -> Any:
        seen.append(batch)
        return update(batch, *rest)

    run.updater.update = watched  # type: ignore[method-assign]
    return seen


# --- masks, gradients, weights ----------------------------------------------------------------
@pytest.mark.parametrize("kind", ["ranked", "delegated"])
def test_tokens_belong_to_one_role_each(kind: str) -> None:
    run = ranked({"ranker": ranker()}) if kind == "ranked" else delegated()[0]
    other = "ranker" if kind == "ranked" else "looker"
    seen = batches(run)
    run.advance()
    (batch,) = seen
    mine, theirs = batch.tokens_of("policy"), batch.tokens_of(other)
    assert not (mine & theirs).any()
    assert torch.equal((mine | theirs) & batch.mask, batch.mask)
    assert (mine & batch.mask).any()
    assert (theirs & batch.mask).any()
    if kind == "delegated":  # both within one trajectory
        assert ((mine & batch.mask).any(1) & (theirs & batch.mask).any(1)).all()


@pytest.mark.parametrize("kind", ["ranked", "delegated"])
def test_each_gradient_is_that_of_its_own_rows(kind: str) -> None:
    """Recomputed row by row: advantage times the gradient of the log-probability, over all tokens
    of the update."""
    if kind == "ranked":
        own = ranker()
        run, name = ranked({"ranker": own}, max_norm=float("inf"), steps=1), "ranker"
    else:
        (run, own), name = delegated(max_norm=float("inf")), "looker"
    models = {"policy": copy.deepcopy(run.lm.model), name: copy.deepcopy(own.lm.model)}
    seen = batches(run)
    run.advance()
    (batch,) = seen
    adv = batch.adv if batch.adv.ndim == 2 else batch.adv[:, None].expand(batch.mask.shape)
    for role, model in models.items():
        lm = TrainableLM(model, lookup.tokenizer())
        loss = torch.zeros(())
        for i, member in enumerate(batch.members):
            for row in member.rows:
                if row.role == role:
                    turns = member.turns[member.order] if member.order is not None else member.turns
                    mine = [int(u.rpartition("/")[2]) for u in row.turn_uids]
                    a = adv[i][: member.tokens][torch.from_numpy(np.isin(turns, mine))]
                    logp = lm.logp([row])[0][torch.from_numpy(row.sampled)]
                    loss = loss - (a * logp)[torch.from_numpy(row.loss_mask[row.sampled])].sum()
        (loss / batch.mask.sum()).backward()
        trained = run.cast.lms[role]
        for mine_, theirs in zip(lm.parameters(), trained.parameters(), strict=True):
            assert theirs.grad is not None
            torch.testing.assert_close(theirs.grad, mine_.grad, atol=2e-6, rtol=1e-4)


def test_shared_and_left_out_are_one_policy() -> None:
    """A role that shares the weights trains bit for bit what a training without roles does."""
    ends, env = [], lookup.setting().under(delegate=True)
    for roles in ({}, {"executor": "shared"}):
        lm, policy = lookup.player(0)
        config = TrainConfig(steps=2, tasks=3, lr=1e-3, seed=3)
        list(Trainer(env, lm, GRPO, config, policy=policy, roles=roles).train())
        ends.append(weights(lm))
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], weights(lookup.player(0)[0]))


@pytest.mark.parametrize("who", ["policy", "looker"])
def test_frozen_weights_stay_byte_for_byte(who: str) -> None:
    """Of the policy, where roles alone are trained, and of an agent that plays a role."""
    lm, policy, looker = handed.players()
    assert looker.policy is not None
    roles: dict[str, Any] = {"looker": looker.policy}
    if who == "policy":
        roles = {"looker": looker, "policy": "frozen"}
    config = TrainConfig(steps=2, tasks=3, lr=1e-3, seed=3)
    run = Trainer(handed.setting(), lm, GRPO, config, policy=policy, roles=roles)
    before = {n: weights(m) for n, m in (("policy", lm), ("looker", looker.lm))}
    seen = batches(run)
    list(run.train())
    after = {"policy": weights(lm), "looker": weights(looker.lm)}
    other = "looker" if who == "policy" else "policy"
    assert torch.equal(before[who], after[who])
    assert not torch.equal(before[other], after[other])
    assert not any((b.mask & b.tokens_of(who)).any() for b in seen)


def test_a_role_learns_beside_a_frozen_policy() -> None:
    lm, policy, looker = handed.players()
    config = TrainConfig(steps=25, tasks=6, lr=4e-3, seed=1)
    recipe = {**GRPO, "rollout": {"use": "chains", "size": 6}, "train": {"minibatches": 2}}
    roles = {"looker": looker, "policy": "frozen"}
    run = Trainer(handed.setting(), lm, recipe, config, policy=policy, roles=roles)
    steps = list(run.train())
    assert np.mean([s["em"] for s in steps[:3]]) < 0.45
    assert np.mean([s["em"] for s in steps[-4:]]) > 0.8
    assert steps[-1]["grad_norm"] == pytest.approx(steps[-1]["roles/looker/grad_norm"])


def test_each_role_has_its_rate() -> None:
    ends = {}
    for lr in (None, 1e-9):
        own = ranker(lr=lr)
        list(ranked({"ranker": own}).train())
        ends[lr] = (weights(own.lm) - weights(lookup.player(0)[0])).abs().max()
    assert ends[1e-9] < 1e-7 < 1e-4 < ends[None]


# --- resuming -----------------------------------------------------------------------------------
def test_a_resumed_run_is_the_one_that_went_on(tmp_path: Path) -> None:
    ends = []
    recipe = {"train": {"minibatches": 2}}
    for name, cuts in (("whole", [4]), ("cut", [1, 3, 4])):
        for steps in cuts:
            own = ranker()
            run = ranked({"ranker": own}, tmp_path / name, steps=steps, recipe=recipe)
            list(run.train())
        ends.append((weights(run.lm), weights(own.lm), rows(tmp_path / name)))
    assert torch.equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][1], ends[1][1])
    assert ends[0][2] == ends[1][2]
    assert (tmp_path / "cut" / LOG).exists()
    saved = run.save(tmp_path / "model")
    again = TrainableLM(saved / "roles" / "ranker")
    assert torch.equal(weights(again), weights(own.lm))


# --- who may play -------------------------------------------------------------------------------
def test_what_does_not_fit_is_refused() -> None:
    lm, policy = lookup.player(0)

    def refused(match: str, recipe: Any = SHELF, **roles: Any) -> None:
        with pytest.raises(CardError, match=match):
            Trainer(shelf(2), lm, recipe, policy=policy, roles=roles)

    refused("would train the weights of another", ranker=lm)
    refused("nothing is trained", ranker=FunctionAgent(lambda request: ""), policy="frozen")
    refused("shares the policy's weights, which are frozen", ranker="shared", policy="frozen")
    refused("asks for no roles: 'ranker'", GRPO, ranker=ranker())
    table = {**Recipe.of("ai_searchplanner").table, "advantage": "grpo"}
    refused("does not train its 'generator'", table, generator=ranker())


def test_plans_name_weights_of_their_own() -> None:
    plan = Plan.of("cosearch", "model", {"roles": {"ranker": "own:other", "policy": "frozen"}})
    assert plan.roles == {"ranker": "own:other", "policy": "frozen"}
    with pytest.raises(CardError, match="'looker'"):
        Plan.of("grpo", "model", {"roles": {"looker": "own"}})
    delegate = {"looker": {"tools": ["search"]}}
    Plan.of("grpo", "model", {"roles": {"looker": "own"}, "env": {"delegate": delegate}})


def test_the_pages_role_is_trained() -> None:
    """In at most 20 lines of a stranger's."""
    page = (Path(__file__).parents[2] / "agents" / "README.md").read_text("utf-8")
    code = page.partition("<!-- run: role -->\n```python\n")[2].partition("```")[0]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    names: dict[str, Any] = {}
    exec(code, names)
    lm, policy = lookup.player(0)
    own = ranker()
    before = weights(own.lm)
    recipe = {"rollout": names["Checked"](4), "advantage": {"use": "by_role"}, "loss": "ppo"}
    config = TrainConfig(steps=1, tasks=2, lr=1e-3)
    run = Trainer(lookup.setting(), lm, recipe, config, policy=policy, roles={"checker": own})
    (step,) = run.train()
    assert step["roles/checker/episodes"] == 8
    assert torch.equal(before, weights(own.lm)) == (step["roles/checker/grad_norm"] == 0)


# --- handing over -------------------------------------------------------------------------------
TWO = {
    "web": {"tools": ["search"], "prompt": "Look on the web."},
    "local": {"tools": []},
    "planner": {"tools": []},
}


def episode(delegate: Any, dialect: str = "plain") -> Episode:
    env = lookup.setting().under(delegate=delegate, max_turns=6, dialect=dialect)
    return Episode(EpisodeConfig(env.tasks[0], env.rules, 0, "e"))


def reasons(played: Episode) -> list[str]:
    return [t.action.reason for t in played.turns if isinstance(t.action, Invalid)]


def test_a_sub_task_names_its_role() -> None:
    e = episode(TWO)
    e.act("search: colour")
    e.act("delegate: box 0?")
    e.act("delegate: web: box 0?")
    assert reasons(e) == [
        "search is not available in this episode",
        "a sub-task begins with who is to do it, one of web, local, and a colon",
    ]
    assert e.turns[-1].action == Delegate("box 0?", "web")
    (request,) = e.requests()
    assert (request.role, [t.name for t in request.tools]) == ("web", ["search"])
    assert request.segments[0].text.startswith("Look on the web.")
    assert e.act("search: colour"), "this role may search"
    again = Episode.restore(e.snapshot(), trust=True)
    assert again.requests() == e.requests()
    assert [t.role for t in again.turns] == ["planner"] * 3


@pytest.mark.parametrize("dialect", ["plain", "search_r1+delegate", "json_tools"])
def test_dialects_write_and_tell_the_role(dialect: str) -> None:
    e = episode(TWO, dialect)
    assert "NAME: web, local" in e.observation()
    made = get_dialect(e.config.rules.dialect)
    e.act(made.render_action(Delegate("box 0?", "local")))
    assert e.turns[-1].action == Delegate("box 0?", "local")
    e.act(made.render_action(Delegate("again", "web")))
    assert reasons(e) == ["tasks cannot be delegated here"]


@pytest.mark.parametrize(
    ("delegate", "match"),
    [("web", "true, false or a table"), ({}, "1 to 16 roles"), ({"planner": {}}, "1 to 16"),
     ({"Web": {}}, "a word in small letters"), ({"policy": {}}, "a word in small letters"),
     ({"web": []}, "a table of tools and prompt"), ({"web": {"tool": []}}, "unknown option"),
     ({"web": {"tools": ["serch"]}}, "Did you mean 'search'"), ({"web": {"tools": "x"}}, "list"),
     ({"web": {"prompt": "x" * 5000}}, "4000 characters")],
)  # fmt: skip
def test_tables_of_roles_are_checked(delegate: Any, match: str) -> None:
    with pytest.raises(CardError, match=match):
        lookup.setting().under(delegate=delegate)


def test_an_agent_may_play_a_role_within_an_episode() -> None:
    """Its turns are in no row."""
    lm, policy, _ = handed.players()
    played: list[Sequence[str]] = []

    def answers(request: Any) -> str:
        played.append([t.name for t in request.tools])
        return "answer: red"

    there = Workers(policy, handed.setting(), lm, roles={"looker": FunctionAgent(answers)})
    plan = TaskPlan(handed.setting().tasks[0], "0.0", 1)
    (group,) = make("rollout", {"use": "chains", "size": 2}).collect([plan], there)
    assert played == [["search"], ["search"]]
    for member in group.members:
        assert [t.role for t in member.episode.turns] == ["planner", "looker", "planner"]
        assert {row.role for row in member.rows} == {"policy"}
        assert sorted(member.turns.tolist())[0] == 0
        assert 1 not in member.turns
