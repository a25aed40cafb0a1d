"""Recipes that name an environment are trained in it: its dialect, engine, rewards and stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from searchgym.envs.search import SearchEnv
from searchgym.llms.base import Sampling
from searchgym.llms.small import train_tokenizer
from searchgym.policies.trainable import TrainableLM
from searchgym.rl.critics.registry import make_critic
from searchgym.rl.recipe import Recipe, shipped
from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.protocols import AdvantageEstimator
from searchgym.rl.trainer import TrainConfig, Trainer
from searchgym.types import TurnRequest
from tests.rl.tiny import llama

pytestmark = pytest.mark.contract

SMALL = {
    "world": {"entities": 80}, "tasks": {"simple": 6, "chain-2": 6}, "snippet_chars": 400,
}  # fmt: skip
ENVIRONMENTS = [name for name in shipped() if Recipe.of(name).env]


@cache
def setting(name: str) -> SearchEnv:
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
    return Trainer(setting(name), lm, recipe, config, policy=policy, critic=critic)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_untrained_model_can_start_there(name: str) -> None:
    """DAPO keeps none of its groups, which all fail alike, and goes on without an update."""
    size = 1 if name == "search_r1_ppo" else 2
    run = trainer(name, 2, rollout={"use": "chains", "size": size})
    first, second = run.train()
    assert second["episodes"] >= 2 * size
    assert all(abs(m["loss"]) < 100 for m in (first, second) if m["groups_kept"])
    assert name == "dapo" or first["groups_kept"] == second["groups_kept"] == 2
    assert run.policy.version == (0 if name == "dapo" else 2)
    dialect = run.env.rules.dialect.partition("+")[0]
    assert dialect in {"search_r1", "search_r1_self", "asearcher"}


@pytest.mark.parametrize("name", [n for n in ENVIRONMENTS if n not in ("ssrl", "zerosearch")])
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
    made = setting("zerosearch")
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
    tasks = setting("zerosearch").tasks
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
