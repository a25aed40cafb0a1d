"""Recipes as they are shipped: each trains otherwise than GRPO, its updates are its source's, and
what it names acts."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from searchgym.rl.diagnostics import IdleOptionWarning, idle_options
from searchgym.rl.recipe import Recipe, shipped
from searchgym.rl.slots.protocols import RunFacts
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl import lookup
from tests.rl.as_shipped import after, before, trained, trainer, weights

pytestmark = pytest.mark.contract

UPDATES = {
    "dapo": 16,  # section 4.1: 512 questions of 16 answers, mini-batches of 512 answers
    "gspo": 4,  # section 5.1: each batch in four mini-batches
    "cispo": 16,  # MiniMax-M1, section 3.1: 16 rounds of off-policy updates per batch
    "search_r1_grpo": 10,
    "search_r1_ppo": 2,
    "zerosearch": 2,
}
"""Updates per step by the sources."""


def test_the_world_tells_methods_apart() -> None:
    """Lengths, turns and searches differ within groups, or the tests below would show nothing."""
    run = trainer("grpo")
    episodes: list[Any] = []
    play = run._play

    def watched(workers: Any) -> Any:
        scored = play(workers)
        episodes.extend(scored)
        return scored

    run._play = watched  # type: ignore[method-assign]
    list(run.train())
    for what in (
        lambda m: m.tokens, lambda m: len(m.episode.turns), lambda m: m.episode.queries,
        lambda m: sum(t.reward for t in m.episode.turns),
    ):  # fmt: skip
        assert any(len({what(m) for m in s.group.members}) > 1 for s in episodes)


@pytest.mark.parametrize("name", [n for n in shipped() if n not in ("grpo", "cosearch")])
def test_a_recipe_as_shipped_is_not_grpo(name: str) -> None:
    """But for CoSearch, which is GRPO where a search finds one passage; ``test_roles`` shows that
    it is not where there is something to rank."""
    moved = (after("grpo") - before()).abs().max()
    apart = (after(name) - after("grpo")).abs().max()
    assert apart > 0.02 * moved


@pytest.mark.parametrize("name", UPDATES)
def test_updates_per_step_are_the_sources(name: str) -> None:
    config = TrainConfig.of(Recipe.of(name))
    assert config.epochs * config.minibatches == UPDATES[name]


OPEN = {"clip_low": 1.0, "clip_high": 1e6}


@pytest.mark.parametrize("name", ["gspo", "cispo", "dapo", "ppo", "decoupled_ppo"])
def test_the_clip_acts(name: str) -> None:
    """Tokens are clipped, and without the clip the weights are others."""
    table = dict(Recipe.of(name).table)
    loss = table["loss"] if isinstance(table["loss"], dict) else {"use": table["loss"]}
    clipped, curve = trained(name)
    assert max(m["clip_frac"] for m in curve) > 0
    free = trainer({**table, "loss": {**loss, **OPEN}})
    list(free.train())
    assert not torch.equal(clipped, weights(free))


def test_m2po_leaves_tokens_out() -> None:
    """At a narrow limit, after the first update of a step."""
    run = trainer({"advantage": "grpo", "loss": {"use": "m2po", "tau": 1e-6}}, minibatches=4)
    curve = list(run.train())
    assert max(m["clip_frac"] for m in curve) > 0


@pytest.mark.parametrize("name", shipped())
def test_no_shipped_recipe_names_an_option_in_vain(name: str) -> None:
    recipe = Recipe.of(name)
    config = TrainConfig.of(recipe)
    sampled, turns = recipe.sampling.get("max_tokens", 256), recipe.env.get("max_turns", 6)
    run = RunFacts(config.epochs * config.minibatches, sampled * turns)
    assert idle_options(recipe, run, given_only=True) == {}


def test_an_option_that_changes_nothing_is_named() -> None:
    lm, policy = lookup.player(0)

    def said(table: Any, **changes: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            recipe = Recipe.of(table)
            config = TrainConfig.of(recipe, steps=1, **changes)
            Trainer(lookup.setting(), lm, recipe, config, policy=policy)
        return [str(w.message) for w in found if issubclass(w.category, IdleOptionWarning)]

    clipped = {"advantage": "grpo", "loss": ["entropy", {"use": "ppo", "clip_high": 0.28}]}
    (message,) = said(clipped)
    assert message.startswith("loss.1.clip_high changes nothing: each step makes one update")
    assert said(clipped, minibatches=2) == said(clipped, epochs=2) == []
    assert said({"advantage": "grpo", "loss": "ppo"}) == [], "defaults are no one's wish"
    (message,) = said("dapo")
    assert "samples at most 12 tokens" in message
    assert message.startswith("reward.1.longest changes nothing")


def test_what_is_idle_is_idle() -> None:
    """An option that is said to change nothing changes nothing, to the last bit."""
    plain, clipped = (
        trainer({"advantage": "grpo", "loss": {"use": "ppo", **options}})
        for options in ({}, {"clip_low": 1e-9, "clip_high": 1e-9})
    )
    for run in (plain, clipped):
        list(run.train())
    assert torch.equal(weights(plain), weights(clipped))
