"""Tests on random batches whether a method learns only from differences within a group.

Group-relative advantages are 0 where all members earned the same. Such a method learns nothing from
groups of one, nor at temperature 0, where all members are one and the same episode.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..errors import CardError
from .slots.batch import Batch, Estimate
from .slots.samples import sample_batch

if TYPE_CHECKING:
    from ..llms.base import Sampling
    from .recipe import Recipe


def compares_groups(recipe: Recipe) -> bool:
    """Check whether groups whose members all earned the same teach nothing."""

    def equal(batch: Batch) -> Batch:
        reward = 0.3 * (batch.group + 1.0)  # differs between groups
        paid = torch.zeros(batch.mask.shape)
        return replace(batch, reward=reward, outcome=reward, turn_reward=paid)

    return _compares_members(recipe) or _gives_nothing(recipe.advantage, equal)


def needs_several_members(recipe: Recipe) -> bool:
    """Check whether groups of one teach nothing, whatever they earned."""

    def alone(batch: Batch) -> Batch:
        return replace(batch, group=torch.arange(len(batch)))

    return _compares_members(recipe) or _gives_nothing(recipe.advantage, alone)


def require_members_that_differ(recipe: Recipe, sampling: Sampling) -> None:
    """Refuse group size 1 and temperature 0 for methods that compare members of a group.

    Raises:
        CardError: naming the option to change.
    """
    size = getattr(recipe.rollout, "size", None)
    if (size is None or size > 1) and sampling.temperature > 0:
        return
    if not needs_several_members(recipe):
        return
    method = type(recipe.advantage).__name__
    if size == 1:
        raise CardError(
            f"{method} compares the members of a group, and groups of one teach it nothing: "
            "rollout.size must be at least 2, got 1"
        )
    raise CardError(
        f"{method} compares the members of a group, which at temperature 0 are all the same: "
        "sampling.temperature must be above 0, got 0"
    )


def _compares_members(recipe: Recipe) -> bool:
    """Check whether a loss compares members (pairs of DPO)."""
    return any(getattr(loss, "whole_groups", False) for loss in recipe.loss)


def _gives_nothing(estimator: Any, change: Any) -> bool:
    """Check whether all advantages of a changed random batch are exactly 0."""
    batch = change(sample_batch(0, signals=sorted(estimator.requires)))
    try:
        estimate = copy.deepcopy(estimator).estimate(batch, {})
    except (RuntimeError, ValueError, IndexError, KeyError):
        return False  # random batches do not suit the estimator: nothing is known of it
    if not isinstance(estimate, Estimate):
        return False  # the first update says what it should be
    advantage = estimate.adv
    if advantage.shape not in (batch.mask.shape[:1], batch.mask.shape):
        return False  # likewise
    mask = batch.mask if advantage.ndim == 2 else batch.mask.any(1)
    return bool((advantage[mask] == 0).all())
