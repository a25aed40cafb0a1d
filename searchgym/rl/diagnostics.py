"""Checks of a training: groups that teach nothing, weights that disagree, idle options."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import CardError, EngineError
from .recipe import SEVERAL, Recipe
from .slots.batch import Batch, Estimate, in_lines
from .slots.protocols import RunFacts
from .slots.registry import REGISTRY
from .slots.samples import sample_batch

if TYPE_CHECKING:
    from ..llms.base import Sampling


EXACT = 1e-4
"""Tolerance in float32, in nats: kernels differ by less."""
ROUNDED = 0.5
"""Tolerance in half precision, in nats: single unlikely tokens differ by this much."""
FEW = 0.01
"""Share of tokens that may differ by more: the least likely of many thousands."""


def tolerance(dtype: torch.dtype, generator: Any = None) -> float:
    """Difference that rounding explains, in nats: by the coarser precision of the trainer's
    ``dtype`` and the generator's. A generator of unknown precision, as a worker's in another
    process, counts as the trainer's."""
    model = getattr(generator, "model", None)
    theirs = getattr(generator, "dtype", getattr(model, "dtype", dtype))
    exact = (torch.float32, torch.float64)
    return EXACT if dtype in exact and theirs in exact else ROUNDED


def require_agreement(
    batch: Batch, version: int, generator: Any, model: Any, limit: float
) -> dict[str, float]:
    """Compare log-probabilities of the batch's tokens that weights of ``version`` drew: those of
    ``generator``, which drew them, with ``batch.old_logp``, the trainer's.

    Returns:
        ``sampling_logp_difference/mean`` and ``/max``, in nats; empty if all tokens are older.

    Raises:
        EngineError: more than ``FEW`` of the tokens differ by more than ``limit``.
    """
    width = batch.mask.shape[1]
    longest = max(map(len, batch.rows))
    versions = torch.from_numpy(
        np.stack([np.pad(r.version, (0, longest - len(r)), constant_values=-1) for r in batch.rows])
    )
    drawn = in_lines(versions + 1, batch.members, width) == version + 1  # 0: no token there
    drawn &= ~batch.expert[:, None]  # drawn after another prompt, or by others
    gap = (batch.need("old_logp") - batch.sampled_logp).abs()[drawn]
    if not len(gap):
        return {}
    mean, largest = float(gap.mean()), float(gap.max())
    if disagree(gap, limit):
        apart = float((gap > limit).double().mean())
        raise EngineError(
            f"{type(generator).__name__} and the trainer disagree on {type(model).__name__} by up "
            f"to {largest:.2g} nats per token (mean {mean:.2g}; {apart:.0%} of {len(gap)} tokens "
            f"by more than {limit:g}): it does not compute this architecture alike, does not "
            "divide logits by the model's temperature, or did not take over the weights. Generate "
            "with a TransformersGenerator, or, if this is rounding, allow it: "
            "TrainConfig(agreement=…)"
        )
    return {"sampling_logp_difference/mean": mean, "sampling_logp_difference/max": largest}


def disagree(gaps: torch.Tensor, limit: float) -> bool:
    """Return whether differences in nats per token are more than rounding: one of them is no
    number, or more than ``FEW`` of them exceed ``limit``."""
    return bool(gaps.isnan().any()) or float((gaps > limit).double().mean()) > FEW


class IdleOptionWarning(UserWarning):
    """An option that the recipe gives changes nothing in this training."""


def idle_options(recipe: Recipe, run: RunFacts, *, given_only: bool = False) -> dict[str, str]:
    """``"loss.0.clip_low"`` → why it changes nothing in such a training.

    Args:
        given_only: Leave out what the recipe does not mention.
    """
    idle: dict[str, str] = {}
    for place, part in recipe.parts():
        for option, reason in part.idle(run).items():
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
    slot, _, number = place.partition(".")
    assert slot in REGISTRY
    entry: Any = recipe.table.get(slot)
    if slot in SEVERAL and isinstance(entry, list | tuple):
        entry = entry[int(number)]
    return frozenset(entry) - {"use"} if isinstance(entry, Mapping) else frozenset()


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
    size = recipe.rollout.size
    if size != 1 and sampling.temperature > 0:
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
    return any(loss.whole_groups for loss in recipe.loss)


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
