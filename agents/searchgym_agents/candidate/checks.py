"""Checks of a candidate agent's recipe, before anything is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchgym.core.rules import checked_switch
from searchgym.envs.mixture import mixture
from searchgym.envs.setup import checked_options
from searchgym.errors import CardError
from searchgym.objects import build, check_options, check_whole

from .encoder import WordEncoder
from .trainer import CandidateTrainConfig

if TYPE_CHECKING:
    from .training import CandidateRecipe


def check_recipe(recipe: CandidateRecipe) -> None:
    """Raise ``CardError`` for an option that a table does not have, or a value that cannot be."""
    for name in ("seed", "seconds"):
        if name in recipe.config:
            raise CardError(f"[train.config] has no {name}, which --{name} fixes for a run")
    build("[train.config]", CandidateTrainConfig, recipe.config)
    encoder = dict(recipe.encoder)
    checked_switch("encoder.none", encoder.pop("none", False))
    check_options("[train.encoder]", WordEncoder, encoder)
    if recipe.mixed:
        mixture(recipe.env)  # reads it
        if recipe.dev:
            mixture(recipe.dev, split="dev")
        return
    dev = dict(recipe.dev)
    check_whole("dev.seed", dev.pop("seed", 1), 0)
    for seed in recipe.worlds:
        check_whole("a seed of worlds", seed, 0)
    for options in (recipe.env, {**recipe.env, **dev}):
        checked_options(options)
