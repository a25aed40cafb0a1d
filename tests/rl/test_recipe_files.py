"""Recipes are files, methods are files: each has what it must, and one more of either is one file
more."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import searchgym.rl.advantages
from searchgym.cards import cards
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.objects import load_object
from searchgym.plugins import registered_in
from searchgym.rl.critics import Critic
from searchgym.rl.diagnostics import IdleOptionWarning
from searchgym.rl.ops.ratios import kl
from searchgym.rl.recipe import Recipe
from searchgym.rl.recipe_files import (
    K3_CUT,
    RecipeDoc,
    document,
    is_path,
    read,
    recipe_files,
    shipped,
)
from searchgym.rl.slots.batch import Batch, Estimate
from searchgym.rl.slots.contracts import check_estimator
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.registry import REGISTRY
from searchgym.rl.trainer import TrainConfig, Trainer
from searchgym.tasks import make_family
from tests.rl.lookup import player, setting

METHOD = '''"""The reward less the group's smallest."""

from __future__ import annotations

from collections.abc import Mapping

from ..ops.groups import RewardGroups
from ..slots.batch import Batch, Estimate
from .base import Relative


class AboveWorst(Relative):
    """R - min of the group, times ``factor``."""

    registered = "above_worst"
    invariant = frozenset({"shift"})
    reads = frozenset({"above_worst"})

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = float(factor)

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        groups = RewardGroups(batch.reward, batch.group)
        known = batch.reward.masked_fill(~groups.scored, float("inf"))
        worst = known.new_full(groups.mean.shape, float("inf"))
        worst = worst.scatter_reduce(0, groups.index, known, "amin")[groups.index]
        factor = coef.get("above_worst", self.factor)
        return Estimate(groups.advantage(factor * (groups.reward - worst)))
'''
RECIPE = """advantage = { use = "above_worst", factor = 0.5 }
loss = "reinforce"
schedule = { use = "scheduled", above_worst = { kind = "linear", start = 0.5, end = 1, total = 4 } }

[train]
minibatches = 2

[doc]
summary = "A test's"
source = "nobody"
formula = "R - min"
"""


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A method's file beside the shipped ones; returns its recipe's file."""
    package = tmp_path / "advantages"
    package.mkdir()
    (package / "above_worst.py").write_text(METHOD)
    folders = [*searchgym.rl.advantages.__path__, str(package)]
    monkeypatch.setattr(searchgym.rl.advantages, "__path__", folders)
    monkeypatch.setattr(searchgym.rl.advantages.__spec__, "submodule_search_locations", folders)
    registered_in.cache_clear()
    recipe = tmp_path / "above_worst.toml"
    recipe.write_text(RECIPE)
    yield recipe
    registered_in.cache_clear()
    sys.modules.pop("searchgym.rl.advantages.above_worst", None)


def test_a_new_advantage_is_one_python_file_and_one_toml(one_more: Path) -> None:
    assert "above_worst" in REGISTRY["advantage"]
    check_estimator({"use": "above_worst", "factor": 2.0})
    lm, policy = player(0)
    recipe = Recipe.of(one_more)
    before = [p.detach().clone() for p in lm.parameters()]
    config = TrainConfig.of(recipe, steps=2, tasks=4, lr=1e-3)
    run = Trainer(setting(), lm, recipe, config, policy=policy)
    assert run.config.minibatches == 2
    curve = list(run.train())
    assert [m["coef/above_worst"] for m in curve] == [0.5, 0.625]
    moved = [(a - b).abs().max() for a, b in zip(before, lm.parameters(), strict=True)]
    assert max(moved) > 1e-4
    assert document(one_more) == RecipeDoc("A test's", "nobody", "R - min")


def test_two_methods_of_one_name_are_refused(one_more: Path) -> None:
    (one_more.parent / "advantages" / "other.py").write_text(METHOD)
    registered_in.cache_clear()
    with pytest.raises(CardError, match=r"'above_worst' is registered twice: .* and "):
        make("advantage", "above_worst")


def test_every_registered_name_is_its_classes() -> None:
    """What the files say is what the classes say, and no file's class is left out."""
    for slot in REGISTRY:
        assert REGISTRY[slot], slot
        for name, path in REGISTRY[slot].items():
            assert load_object(path).registered.rpartition(":")[2] == name, path


def test_a_look_at_names_and_recipes_loads_no_library() -> None:
    code = (
        "import sys; from searchgym.rl.slots.registry import REGISTRY\n"
        "from searchgym.rl.recipe_files import document, read, shipped\n"
        "assert len([n for slot in REGISTRY for n in REGISTRY[slot]]) > 50\n"
        "for name in shipped(): read(name), document(name)\n"
        "heavy = {'torch', 'transformers', 'numba'} & set(sys.modules); assert not heavy, heavy\n"
        "used = [m for m in sys.modules if m.startswith('searchgym.rl.advantages.')]\n"
        "assert not used, used"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", shipped())
def test_every_recipe_can_be_made_and_says_what_it_is(name: str) -> None:
    table = tomllib.loads((recipe_files()[name]).read_text(encoding="utf-8"))
    doc = table.pop("doc")
    assert read(name) == table == Recipe.of(name).table
    told, shown = RecipeDoc.of(doc, name), document(name)
    assert shown.formula.startswith(told.formula), "the limit of k3 is added where it acts"
    assert dataclasses.replace(shown, formula=told.formula) == told
    assert name not in cards("agents"), "agents and recipes have different names"


SMALL = {"world": {"entities": 80}, "tasks": {"simple": 4}}
EXTENDED = {name: env for name in shipped() if (env := dict(Recipe.of(name).env))}


@pytest.mark.parametrize("name", EXTENDED)
def test_a_recipes_environment_exists(name: str) -> None:
    """Built over a small world; where the recipe names no corpus, over the default one."""
    env = EXTENDED[name]
    made = SearchEnv(**{**env, **SMALL})
    assert made.tasks
    for kind in env.get("tasks", {}):
        make_family(kind)  # an unknown one raises
    assert made.setup.options.reward == env.get("reward", "em")


def test_the_search_recipes_say_where_they_search() -> None:
    assert {"search_r1_grpo", "search_r1_ppo", "zerosearch", "ssrl", "searchgym_rl"} <= set(
        EXTENDED
    )
    assert SearchEnv(**{**EXTENDED["ssrl"], **SMALL}).rules.dialect == "search_r1_self"


def test_a_bare_name_is_always_the_shipped_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grpo").mkdir()
    (tmp_path / "grpo" / "card.toml").write_text("[recipe]\nadvantage = 'os:system'\n")
    (tmp_path / "mine.toml").write_text('advantage = "rloo"\nloss = "ppo"\n[env]\nk = 5\n')
    monkeypatch.chdir(tmp_path)
    assert read("grpo")["advantage"] == "grpo"
    for path in ("mine.toml", "./mine.toml", Path("mine.toml"), str(tmp_path / "mine.toml")):
        assert Recipe.of(path).env == {"k": 5}
        assert document(path) is None
    with pytest.raises(CardError, match="unknown recipe 'mine'"):
        read("mine")
    with pytest.raises(CardError, match="cannot read"):
        read("./grpo")
    assert not is_path("grpo")


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({}, "no 'summary'"),
        ({"summary": "s", "source": "s"}, "no 'formula'"),
        ({"summary": 3, "source": "s", "formula": "f"}, "summary must be a str"),
        ({"summary": "s", "sorce": "s", "formula": "f"}, "Did you mean 'source'"),
    ],
)
def test_a_document_with_a_mistake_is_one_clear_error(doc: dict[str, object], message: str) -> None:
    with pytest.raises(CardError, match=message):
        RecipeDoc.of(doc, "mine.toml")


def test_mistakes_outside_the_slots_are_named() -> None:
    plain = {"advantage": "grpo", "loss": "reinforce"}
    with pytest.raises(CardError, match="sampling option 'temprature'"):
        Recipe.of({**plain, "sampling": {"temprature": 0.5}})
    loaded = load_object(f"{type(make('advantage', 'grpo')).__module__}:GRPO")
    with pytest.raises(CardError, match="the slot 'advantage' holds an object, not a class: write"):
        Recipe.of({**plain, "advantage": loaded})


def test_models_that_no_part_reads_are_refused() -> None:
    lm, policy = player()
    plain = {"advantage": "grpo", "loss": "reinforce"}
    with pytest.raises(CardError, match="learns from no teacher, and one is given: leave it out"):
        Trainer(setting(), lm, plain, policy=policy, teacher=lm)
    with pytest.raises(CardError, match="learns from no critic, and one is given"):
        Trainer(setting(), lm, plain, policy=policy, critic=Critic(lm))
    with pytest.warns(IdleOptionWarning, match="critic changes nothing: no part of the recipe"):
        Trainer(setting(), lm, {**plain, "critic": {"use": "scalar"}}, policy=policy)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("steps", 1.5, "steps must be a whole number of at least 1, got 1.5"),
        ("steps", True, "steps must be a whole number of at least 1, got True"),
        ("seed", -1, "seed must be a whole number of at least 0, got -1"),
        ("reset_optimizer", 1, "reset_optimizer must be true or false, got 1"),
        ("lr", "x", "lr must be a finite number above 0, got 'x'"),
        ("lr", math.nan, "lr must be a finite number above 0, got nan"),
        ("lr", -1, "lr must be a finite number above 0, got -1"),
        ("muon_lr", math.inf, "muon_lr must be a finite number of at least 0, got inf"),
        ("max_norm", 0, "max_norm must be a number above 0, got 0"),
        ("task", 3, "unknown training option 'task'. Did you mean 'tasks'"),
    ],
)
def test_a_training_option_that_cannot_be_is_named(option: str, value: Any, says: str) -> None:
    plain = {"advantage": "grpo", "loss": "reinforce"}
    recipe = Recipe.of({**plain, "train": {option: value}})
    with pytest.raises(CardError, match=says):
        TrainConfig.of(recipe)
    assert TrainConfig(max_norm=math.inf).max_norm == math.inf, "gradients as they are"


def test_a_trainer_needs_a_language_model() -> None:
    says = r"lm must be a TrainableLM, got 'tiny'; write TrainableLM\('tiny'\)"
    with pytest.raises(CardError, match=says):
        Trainer(setting(), "tiny", "grpo")  # type: ignore[arg-type]


def test_a_trainers_options_are_a_train_config() -> None:
    recipe = Recipe.of({"advantage": "grpo", "loss": "reinforce", "train": {"steps": 3}})
    assert TrainConfig.given(None, recipe) == TrainConfig(steps=3)
    assert TrainConfig.given(TrainConfig(steps=5), recipe).steps == 5
    says = (
        r"config must be a TrainConfig, got dict: \{'steps': 1\}; write TrainConfig\(\*\*options\)"
    )
    with pytest.raises(CardError, match=says):
        TrainConfig.given({"steps": 1}, recipe)  # type: ignore[arg-type]


def test_a_policy_made_by_the_trainer_samples_as_the_recipe_says() -> None:
    lm, policy = player()
    table = {"advantage": "grpo", "loss": "reinforce", "sampling": {"max_tokens": 9}}
    assert Trainer(setting(), lm, table).policy.sampling.max_tokens == 9
    assert Trainer(setting(), lm, table, policy=policy).policy.sampling == policy.sampling


class Short(type(make("advantage", "grpo"))):  # type: ignore[misc]
    """Advantages of three trajectories, whatever there are."""

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        return Estimate(torch.zeros(3))


def test_advantages_of_another_shape_are_refused() -> None:
    lm, policy = player()
    table = {"advantage": Short(), "loss": "reinforce"}
    run = Trainer(setting(), lm, table, TrainConfig(steps=1, tasks=2), policy=policy)
    with pytest.raises(CardError, match=r"Short.estimate gave advantages of shape \(3,\)"):
        list(run.train())


class PerTrajectory(type(make("loss", "reinforce"))):  # type: ignore[misc]
    """A loss of each trajectory instead of their sum."""

    def __call__(self, *arguments: Any) -> Any:
        loss, stats = super().__call__(*arguments)
        return loss.repeat(3), stats


def test_a_loss_that_is_no_number_is_refused() -> None:
    lm, policy = player()
    table = {"advantage": "grpo", "loss": PerTrajectory()}
    run = Trainer(setting(), lm, table, TrainConfig(steps=1, tasks=2), policy=policy)
    with pytest.raises(CardError, match=r"gave a tensor of shape \(3,\); expected one number"):
        list(run.train())


def test_pages_with_k3_say_where_it_is_cut() -> None:
    """At 10, d = -2.61: beyond it the gradient is 0, which the bare formula does not tell."""
    found = [name for name in shipped() if '"k3"' in str(read(name)).replace("'", '"')]
    assert {"grpo_kl", "search_r1_grpo", "zerosearch", "igpo", "ssrl", "slate"} <= set(found)
    for name in found:
        assert K3_CUT in document(name).formula  # type: ignore[union-attr]
    assert K3_CUT not in document("grpo").formula  # type: ignore[union-attr]
    d = torch.tensor([-2.5, -2.7], requires_grad=True)
    kl(d, torch.zeros(2), "k3").sum().backward()
    assert d.grad is not None
    assert d.grad[0] < -10
    assert d.grad[1] == 0
