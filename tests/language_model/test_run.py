"""Fine-tuning, from demonstrations to a folder that plays: resumable, and refused elsewhere."""

# ruff: noqa: F811  (a fixture that another file defines)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from searchgym.cards import cards
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, DataError, DialectError
from searchgym.evaluation import evaluate
from searchgym.llms import MODELS, STATE, Progress
from searchgym.policies import TrainableLM, load_policy
from searchgym_agents.language_model.demonstrations import (
    FILE,
    count_of,
    demonstrations,
    environments_of,
    load,
)
from searchgym_agents.language_model.recipe import FinetuneRecipe
from searchgym_agents.language_model.run import COPIES, SFT, finish, rewarded, teach
from tests.cli.conftest import Cli, cli  # noqa: F401  (a fixture)
from tests.envs.own import notes  # noqa: F401  (a fixture)
from tests.experts.world import KEYWORDS
from tests.language_model.tables import RENDERER, table
from tests.llms import tiny

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    return str(tiny.save(folder, "llama", max_position_embeddings=8192))


def test_a_budget_of_tokens_sets_the_steps_and_copies_are_kept(model: str, tmp_path: Path) -> None:
    """The same copies, to the bit, where a run was interrupted between them."""
    sft = {"batch": 3, "tokens": 4000, "max_tokens": 4000, "lr": 1e-3}
    given = FinetuneRecipe.of({**table(model, sft=sft), "budget": 9000, "keep": [3000, 6000]})
    seen: list[Progress] = []
    teach(tmp_path / "whole", given, report=seen.append)
    read = np.cumsum([step.tokens for step in seen])
    assert seen[-1].step == seen[-1].steps == len(seen)
    assert read[-2] < 9000 <= read[-1]

    def stop(now: Progress) -> None:
        if now.step == len(seen) // 2:  # after one copy
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        teach(tmp_path / "part", given, save_every=1, report=stop)
    teach(tmp_path / "part", given, save_every=1)
    weights = []
    for run in ("whole", "part"):
        copies = sorted((tmp_path / run / COPIES).iterdir())
        assert [copy.name for copy in copies] == ["3000", "6000"]
        agents = [load_policy(copy) for copy in copies]
        assert {agent.sampling.max_tokens for agent in agents} == {256}
        assert {agent.generator.model.dtype for agent in agents} == {torch.bfloat16}
        weights.append([agent.fingerprint for agent in agents])
    assert weights[0] == weights[1]
    assert len(set(weights[0])) == 2
    with pytest.raises(CardError, match="budget and keep are tokens"):
        replace(given, keep=(0,))


def test_every_card_of_a_language_model_is_read() -> None:
    agents = cards("agents").items()
    found = {n: c for n, c in agents if c.body.get("train", {}).get("use") == "finetune"}
    assert set(found) == {"qwen05", "smollm", "smollm-gpu"}
    for card in found.values():
        recipe = FinetuneRecipe.of(card.body["train"])
        assert recipe.model in MODELS
        assert count_of(recipe.demonstrations) >= 20


def test_worlds_take_their_variants_in_turn(model: str) -> None:
    recipe = FinetuneRecipe.of(table(model))
    first, second = environments_of(recipe.demonstrations)
    assert (first["world"], first["k"]) == ({"entities": 200, "seed": 5}, 2)
    assert (second["world"]["seed"], second["k"]) == (6, 3)
    assert second["wording"] == {"distractors": 1}


def test_demonstrations_are_the_experts_texts_as_tokens(model: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe.of(table(model))
    lm = TrainableLM(model, device="cpu")
    told: list[int] = []
    rows = demonstrations(
        lm, recipe.demonstrations, renderer=RENDERER, max_tokens=4000, report=told.append
    )
    assert told == [1, 2]
    searches = [lm.tokenizer.decode(row.ids[row.own]).count("<search>") for row in rows]
    assert {1, 2} <= set(searches)
    for row in rows:
        written = lm.tokenizer.decode(row.ids[row.own])
        assert written.startswith("<search> ")
        assert written.count("<answer>") == 1
        assert "<information>" not in written
        whole = lm.tokenizer.decode(row.ids)
        assert whole.startswith("<|im_start|>user\nQuestion: ")
        assert "between <information>" not in whole  # the instructions
    assert (
        demonstrations(lm, recipe.demonstrations, renderer=RENDERER, max_tokens=4000)[
            3
        ].ids.tolist()
        == rows[3].ids.tolist()
    )
    with pytest.raises(DataError, match="solved no question within 20 tokens"):
        demonstrations(lm, recipe.demonstrations, renderer=RENDERER, max_tokens=20)


def test_worlds_and_a_folder_are_shown_in_shares(model: str, notes: str) -> None:
    """The expert of worlds plays the worlds, that of labelled questions the texts."""
    text = {"corpus": notes, "tasks": {"fact": 30, "gap": 30, "at_most": True}, "weight": 1}
    world = {**KEYWORDS, "world": {"entities": 200}, "worlds": [5, 6], "weight": 1}
    recipe = FinetuneRecipe.of({**table(model), "env": [world, text]})
    told: list[int] = []
    options: dict[str, Any] = {"renderer": RENDERER, "max_tokens": 4000}
    lm = TrainableLM(model, device="cpu")
    rows = demonstrations(lm, recipe.demonstrations, **options, report=told.append)
    assert told == [1, 2, 3]
    texts = [lm.tokenizer.decode(row.ids) for row in rows]
    assert sum("Morrin" in text for text in texts) * 2 == len(texts) > 10
    alone = FinetuneRecipe.of({**table(model), "env": notes}).demonstrations
    assert count_of(alone) == 1
    shown = demonstrations(lm, alone, **options)
    assert all("Morrin" in lm.tokenizer.decode(row.ids) for row in shown)


@pytest.mark.parametrize("results", [False, True])
def test_self_search_is_taught_with_or_without_the_results(model: str, results: bool) -> None:
    """The oracle solves every question in one text, whose results are trained on if it is asked."""
    env = {**KEYWORDS, "engine": "self", "tools": [], "max_turns": 1, "snippet_chars": 120}
    made = {
        "expert": "self_writing", "seeds": [5, 6],
        "env": env, "results": results,
    }  # fmt: skip
    lm = TrainableLM(model, device="cpu")
    rows = demonstrations(lm, made, renderer=RENDERER, max_tokens=4000)
    searches: list[int] = []
    for row in rows:
        written = lm.tokenizer.decode(row.ids[row.own])
        assert written.startswith("<think> This must be looked up. </think>")
        assert written.count("</answer>") == 1
        searches.append(written.count("<search>"))
        assert written.count("<information>") == searches[-1] * results
    assert sorted(searches) == [1] * 6 + [2] * 4  # of one hop, of two
    with pytest.raises(DialectError, match="make the environment with engine='self'"):
        demonstrations(lm, {**made, "env": KEYWORDS}, renderer=RENDERER, max_tokens=4000)


def test_a_run_goes_on_and_its_model_plays(model: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe.of(table(model))
    whole, part = tmp_path / "whole", tmp_path / "part"
    made = teach(whole, recipe, save_every=2)
    assert made.episodes == len(load(whole / FILE, _about(whole)) or ())

    class Stop(Exception):
        pass

    def stop(now: Any) -> None:
        if now.step == 3:
            raise Stop

    with pytest.raises(Stop):
        teach(part, recipe, save_every=2, report=stop)
    worlds: list[int] = []
    steps: list[int] = []
    teach(part, recipe, save_every=2, made=worlds.append, report=lambda p: steps.append(p.step))
    assert (worlds, steps) == ([], [3, 4])  # demonstrations were kept
    one, other = (load_file(str(f / SFT / STATE)) for f in (whole, part))
    assert all(torch.equal(one[name], other[name]) for name in one)

    base = load_file(str(Path(model) / "model.safetensors"))
    after = load_file(str(whole / SFT / "model.safetensors"))
    assert torch.equal(base["model.embed_tokens.weight"], after["model.embed_tokens.weight"])
    assert not torch.equal(base["model.norm.weight"], after["model.norm.weight"])

    folder = finish(whole, recipe)
    policy = load_policy(folder)
    stored = load_file(str(folder / "model.safetensors"))["model.norm.weight"]
    assert (policy.sampling.max_tokens, stored.dtype) == (256, torch.bfloat16)
    assert policy.renderer.instructions is False
    env = SearchEnv(**{**KEYWORDS, "max_turns": 1})  # little trained, it writes to its limit
    assert len(evaluate(policy, env, tasks=env.tasks[:2]).rows) == 2

    with pytest.raises(DataError, match="other settings"):
        teach(whole, replace(recipe, sft={**recipe.sft, "lr": 2e-3}))
    with pytest.raises(DataError, match="made by other settings"):
        teach(whole, replace(recipe, renderer="chat"))


def _about(out: Path) -> Any:
    from searchgym.storage import read_state

    return read_state(out / FILE, "demonstrations")[1]["about"]


def test_a_recipe_says_what_is_wrong(model: str) -> None:
    for changes, said in (
        ({"modle": 1}, "unknown key of .train. 'modle'. Did you mean 'model'"),
        ({"sft": {"step": 1}}, "unknown option of .train.sft. 'step'. Did you mean 'steps'"),
        ({"sft": {"steps": 0}}, "steps must be a whole number of at least 1, got 0"),
        ({"rl": {"env": "SearchQA-v0"}}, "needs 'recipe'"),
        ({"demonstrations": {"seeds": [0, 1]}}, "needs 'expert'"),
    ):
        with pytest.raises(CardError, match=said):
            FinetuneRecipe.of(table(model, **changes))
    wrong = table(model)
    wrong["demonstrations"]["seeds"] = [3, 3]
    with pytest.raises(CardError, match=r"seeds are \[first, last\]"):
        FinetuneRecipe.of(wrong)


def test_the_second_stage_is_a_plan_of_the_trainer(model: str, tmp_path: Path) -> None:
    assert rewarded(tmp_path, FinetuneRecipe.of(table(model))) is None
    rl = {"recipe": "grpo", "steps": 2, "set": {"train": {"tasks": 2}, "rollout": {"size": 3}}}
    plan = rewarded(tmp_path, FinetuneRecipe.of(table(model, rl=rl)), seed=4)
    assert plan is not None
    assert (plan.model, plan.seed) == (str(tmp_path / SFT), 4)
    assert plan.train == {"tasks": 2, "seed": 4, "steps": 2}
    assert plan.table["rollout"] == {"use": "chains", "size": 3}
    assert rewarded(tmp_path, FinetuneRecipe.of(table(model, rl={**rl, "steps": 0}))) is None


def test_one_command_makes_it(cli: Cli, model: str, tmp_path: Path) -> None:
    card = tmp_path / "mine"
    card.mkdir()
    (card / "card.toml").write_text(
        f'''id = "mine"
summary = "A test's"
use = "searchgym.policies.model_folder:load_policy"
[kwargs]
folder = "{tmp_path}/out/model"
[train]
model = "{model}"
renderer = {{ use = "chat", instructions = false }}
turn_tokens = 12
[train.demonstrations]
expert = "quoting"
seeds = [5, 6]
[train.demonstrations.env]
corpus = "encyclopedia"
world = {{ entities = 200 }}
tasks = {{ simple = 4 }}
max_turns = 4
[train.sft]
steps = 9
batch = 2
max_tokens = 4000
[train.rl]
recipe = "grpo"
steps = 1
[train.rl.set.train]
tasks = 1
[train.rl.set.rollout]
size = 2
[train.rl.set.env]
world = {{ entities = 200, seed = 8 }}
tasks = {{ simple = 2 }}
max_turns = 2
[train.rl.set.sampling]
max_tokens = 8
'''
    )
    out = tmp_path / "out"
    again = ["train", str(card), "--out", str(out), "-s", "sft.steps=2", "--json"]
    done = cli(*again)
    assert done.code == 0, done.err
    assert "making the demonstrations of " in done.err  # no terminal: lines instead of a bar
    assert "step 1/2 loss " in done.err
    assert "step 2/2 loss " in done.err
    assert (out / "rl" / "rl.jsonl").exists()
    assert (out / "model" / "model.safetensors").exists()
    repeated = cli(*again)
    assert repeated.code == 0, repeated.err
    assert "loss" not in repeated.err  # all of it was done already
    played = cli("eval", "SearchQA-v0", "-a", str(card), "-n", "2", "--closed-book", "none",
                 "-s", 'world={"entities":200}', "-s", 'tasks={"simple":2}', "-s",
                 "max_turns=1", "--json")  # fmt: skip
    assert played.code == 0, played.err
    wrong = cli(*again, "-s", "sft.stepz=3")
    assert wrong.code == 2
    assert "unknown key of [train.sft] 'stepz'" in wrong.err
    slow = cli(*again, "--seconds", "5")
    assert "--seconds is not for this card" in slow.err


def test_numbers_of_a_demonstration_file(model: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe.of(table(model))
    teach(tmp_path, recipe)
    rows = load(tmp_path / FILE, _about(tmp_path))
    assert rows is not None
    assert all(row.ids.shape == row.own.shape and row.own.dtype == np.bool_ for row in rows)
    assert load(tmp_path / "none", {}) is None
