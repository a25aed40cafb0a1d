"""Data policies by curricula, and environments that recipes are meant for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.llms import Sampling, train_tokenizer
from searchgym.policies import TrainableLM
from searchgym.rl.critics import make_critic
from searchgym.rl.data import ByCurriculum
from searchgym.rl.recipe import Recipe, read, shipped
from searchgym.rl.rollouts.chains import start
from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.protocols import AdvantageEstimator, make
from searchgym.rl.slots.records import Group, Played, Rewards, Scored, TaskPlan, Workers
from searchgym.rl.trainer import TrainConfig, Trainer
from searchgym.types import TurnRequest
from tests.rl.colours import TASKS, player, setting
from tests.rl.tiny import llama
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


pytestmark = pytest.mark.contract

SMALL = {
    "world": {"entities": 80}, "tasks": {"simple": 6, "chain-2": 6}, "snippet_chars": 400,
}  # fmt: skip
ENVIRONMENTS = [name for name in shipped() if Recipe.of(name).env]


@cache
def own_setting(name: str) -> SearchEnv:
    env = Recipe.of(name).env
    short = {n: 3 for n in ("max_turns", "k") if env.get(n, 1) > 3}
    return SearchEnv(**{**env, **SMALL, **short})


@cache
def tokenizer() -> Any:
    return train_tokenizer(["<search> <answer> <information> <think> </"], 300)


def trainer(name: str, tasks: int = 4, **changes: Any) -> Trainer:
    """Of a model that knows nothing, with long contexts and short turns."""
    recipe = Recipe.of({**Recipe.of(name).table, **changes})
    model = llama(tokenizer(), heads=2)
    model.config.max_position_embeddings = 100_000
    lm = TrainableLM(model, tokenizer(), reference=recipe.needs("ref_logp"))
    policy = lm.policy("plain", sampling=Sampling(max_tokens=12))
    critic = make_critic({**recipe.critic, "lr": 1e-3}, lm) if recipe.needs("value") else None
    config = TrainConfig.of(recipe, steps=2, tasks=tasks, lr=1e-3)
    return Trainer(own_setting(name), lm, recipe, config, policy=policy, critic=critic)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_untrained_model_can_start_there(name: str) -> None:
    """DAPO and its like keep none of their groups, which all fail alike, and go on without an
    update."""
    drops = getattr(Recipe.of(name).data, "max_rounds", 0) > 0
    size = 1 if name == "search_r1_ppo" else 2
    run = trainer(name, 2, rollout={"use": "chains", "size": size})
    first, second = run.train()
    assert second["episodes"] >= 2 * size
    assert all(abs(m["loss"]) < 100 for m in (first, second) if m["groups_kept"])
    assert drops or first["groups_kept"] == second["groups_kept"] == 2
    assert run.policy.version == (0 if drops else 2)
    dialect = run.env.rules.dialect.partition("+")[0]
    assert dialect in {"search_r1", "search_r1_self", "asearcher"}


ELSEWHERE = {
    "ssrl": "no engine answers", "zerosearch": "passages are written anew",
    "acqo": "the queries are the episode", "router_r1": "queries name a model",
    "hiersearch": "the planner has no tools", "ur2": "easy questions have no tools",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in ENVIRONMENTS if n not in ELSEWHERE])
def test_its_rewards_are_those_of_right_answers(name: str) -> None:
    """An oracle agent, which knows what it has seen by passages' ids and so no engine that writes
    its own (``test_the_oracle_plays_zerosearch``), searches there and earns what is paid."""
    run = trainer(name, rollout="demonstrations", advantage="ones", loss="sft")
    first, _ = run.train()
    assert first["searches"] >= 1
    assert first["reward"] == pytest.approx(first["em"], abs=0.3)
    assert first["reward"] >= 0.75


def test_the_oracle_plays_zerosearch() -> None:
    """The environment's own oracle, which is told what was found: a search a hop, F1 1."""
    made = own_setting("zerosearch")
    for task in made.tasks:
        made.reset(seed=1, options={"task_id": task.id})
        texts = made.oracle()
        assert len(texts) == len(dict.fromkeys(task.queries)) + 1
        rewards = [float(made.step(text)[1]) for text in texts]
        assert made.episode.outcome().parts["evidence_recall"] == 1
        assert sum(rewards) == 1


def test_its_stages_begin_with_short_questions() -> None:
    run = trainer("searchgym_rl")
    assert max(plan.task.hops for plan in run.recipe.data.plan(run.env.tasks, 30, 0, 0)) <= 2


def test_zerosearchs_noise_grows() -> None:
    data = trainer("zerosearch").recipe.data
    tasks = own_setting("zerosearch").tasks
    noise = [data.plan(tasks, 1, step, 0)[0].params["noise"] for step in (0, 100, 202)]
    assert noise[0] == pytest.approx(0.0, abs=1e-6)
    assert noise[0] < noise[1] < noise[2] <= 0.5


INFORMATION = "<information>It says so: {}.</information>"


class Itself:
    """Writes a search, its own results and the answer in one text, as a self-searching policy."""

    def __init__(self, made: SearchEnv) -> None:
        self._answers = {task.question: task.answers[0] for task in made.tasks}

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        return [self._text(request) for request in requests]

    def _text(self, request: TurnRequest) -> str:
        asked = next(s.text for s in request.segments if s.kind == "question")
        answer = next(a for question, a in self._answers.items() if question in asked)
        search = f"<think>I look it up.</think><search>{answer}</search>"
        found = f"{INFORMATION.format(answer)}<think>Found.</think>"
        return f"{search}{found}<answer>{answer}</answer>"


class Seen(AdvantageEstimator):
    """Ones, and what the batch was."""

    relative = False

    def __init__(self) -> None:
        self.batch: Batch | None = None

    def estimate(self, batch: Batch, coef: Any) -> Any:
        from searchgym.rl.advantages.reinforce import Ones

        self.batch = batch
        return Ones().estimate(batch, coef)


def test_what_a_policy_found_by_itself_is_not_trained_on() -> None:
    """SSRL masks information blocks, though the policy wrote them; and pays .9 EM + .1 form."""
    expert = f"{__name__}:Itself"
    seen = Seen()
    run = trainer(
        "ssrl", rollout={"use": "demonstrations", "expert": expert}, advantage=seen, loss="sft"
    )
    first, _ = run.train()
    seen = run.recipe.advantage  # type: ignore[assignment]
    assert first["em"] == 1
    assert first["reward"] == pytest.approx(1.0)
    batch = seen.batch
    assert batch is not None
    for member, mask in zip(batch.members, batch.mask, strict=True):
        (row,) = member.rows
        ids = row.ids[row.sampled]
        kept = "".join(run.lm.tokenizer.decode(ids[mask[: len(ids)].numpy()].tolist()))
        assert "<search>" in kept
        assert "<answer>" in kept
        assert "It says so" not in kept
        assert "It says so" in run.lm.tokenizer.decode(ids.tolist())
