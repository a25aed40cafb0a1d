"""Advantages of played groups by a recipe's parts: signals, rewards, comparison.

The trainer calls these between playing and updating, and so does whatever looks at a recipe's
credit without training (``searchgym_agents.lab``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import CardError
from .recipe import UNREAD_SCALE, Recipe
from .slots.batch import Batch, Estimate
from .slots.records import Floats, Group, Rewards, Scored, Signals, Workers


def score_groups(recipe: Recipe, groups: Sequence[Group], workers: Workers) -> list[Scored]:
    """Measure and reward played groups.

    Raises:
        CardError: an episode is not finished, and the rollout does not say that it truncates.
    """
    if not recipe.rollout.truncates:
        _require_finished(recipe, groups)
    measured: list[dict[str, Floats]] = [{} for _ in groups]
    for signal in recipe.signal:
        for known, new in zip(measured, signal.measure(groups, workers), strict=True):
            known.update(new)
    return [
        Scored(group, signals, reward_group(recipe, group, signals, workers.coef))
        for group, signals in zip(groups, measured, strict=True)
    ]


def _require_finished(recipe: Recipe, groups: Sequence[Group]) -> None:
    for member in (m for g in groups for m in g.members):
        if not member.finished:
            raise CardError(
                f"{type(recipe.rollout).__name__} stopped in episode "
                f"{member.episode.config.episode_id!r} before its end (phase "
                f"{member.episode.phase!r}): play it to the end, or, if such episodes are to be "
                "trained on, say truncates = True in the class"
            )


def reward_group(
    recipe: Recipe, group: Group, signals: Signals, coef: Mapping[str, float]
) -> Rewards:
    """Apply a recipe's reward transforms to a measured group."""
    broken = np.array([m.broken for m in group.members])
    rewards = Rewards(np.where(broken, np.nan, 0.0))
    for transform in recipe.reward:
        rewards = transform.apply(group, signals, rewards, coef)
    return rewards


def compare(recipe: Recipe, batch: Batch, coef: Mapping[str, float]) -> None:
    """Fill in a batch's advantages, and the clip scale and mask that come with them.

    Raises:
        CardError: the estimator gives no ``Estimate``, or factors that no loss reads.
    """
    name = type(recipe.advantage).__name__
    estimate = recipe.advantage.estimate(batch, coef)
    if not isinstance(estimate, Estimate):
        raise CardError(
            f"{name}.estimate gave a {type(estimate).__name__}, not an Estimate "
            "(searchgym.rl.slots.batch): return Estimate(advantages)"
        )
    shapes = batch.mask.shape[:1], batch.mask.shape
    if estimate.adv.shape not in shapes:
        raise CardError(
            f"{name}.estimate gave advantages of shape {tuple(estimate.adv.shape)}; expected one "
            f"for each trajectory, {tuple(shapes[0])}, or for each token, {tuple(shapes[1])}"
        )
    if estimate.clip_scale is not None and not recipe.scales_clip:
        raise CardError(f"{name} {UNREAD_SCALE}")
    batch.credit = estimate
    batch.notes |= estimate.notes
    if estimate.mask is not None:
        batch.narrow(estimate.mask)
