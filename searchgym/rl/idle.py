"""Options that change nothing in a training, found before it begins.

A clip on the ratio does nothing where every ratio is 1, a penalty for long episodes nothing where
none can be that long. Neither is an error; a method that is named after such an option is then
another one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from .recipe import SEVERAL, Recipe
from .slots.protocols import RunFacts
from .slots.registry import REGISTRY


class IdleOptionWarning(UserWarning):
    """An option that the recipe gives changes nothing in this training."""


def idle_options(recipe: Recipe, run: RunFacts, *, given_only: bool = False) -> dict[str, str]:
    """``"loss.0.clip_low"`` → why it changes nothing in such a training.

    Args:
        given_only: Leave out what the recipe does not mention.
    """
    idle: dict[str, str] = {}
    for place, part in recipe.parts():
        ask = getattr(part, "idle", None)
        reasons: Mapping[str, str] = ask(run) if ask is not None else {}
        for option, reason in reasons.items():
            if not given_only or option in _given(recipe, place):
                idle[f"{place}.{option}"] = reason
    return idle


def warn_of_idle_options(recipe: Recipe, run: RunFacts) -> None:
    """Warn of each option that the recipe gives in vain, as an :class:`IdleOptionWarning`."""
    idle = idle_options(recipe, run, given_only=True)
    if recipe.critic and not recipe.needs("value"):
        idle["critic"] = "no part of the recipe reads one"
    for place, reason in idle.items():
        warnings.warn(f"{place} changes nothing: {reason}", IdleOptionWarning, stacklevel=3)


def _given(recipe: Recipe, place: str) -> frozenset[str]:
    """The options that a recipe's table names for an object."""
    slot, _, number = place.partition(".")
    assert slot in REGISTRY
    entry: Any = recipe.table.get(slot)
    if slot in SEVERAL and isinstance(entry, list | tuple):
        entry = entry[int(number)]
    return frozenset(entry) - {"use"} if isinstance(entry, Mapping) else frozenset()
