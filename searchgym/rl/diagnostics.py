"""Warnings and checks of a training: collapse, groups that teach nothing, weights that disagree,
options that do nothing. Each warning is given once, in Python and in the log."""

from __future__ import annotations

import copy
import math
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


TRACKED = ("reward", "em", "searches", "entropy", "completion_length", "truncated")
"""Metrics whose moving averages are kept."""


class CollapseWarning(UserWarning):
    """Training goes on, but what is named needs a look."""


class CollapseMonitor:
    """Watches the metrics of :mod:`searchgym.rl.measures` for collapses and for missing signal.

    Args:
        searchable: True if the environment has tools at all.
        compares_groups: True if the advantage is 0 for groups of equal rewards, so that a training
            in which no group differs learns nothing (``no_signal``).
        first: Steps whose mean is what the run began with.
        weight: Weight of the newest step in the moving average.
        patience: Steps without anything to learn before ``no_signal``, and without a legal action
            before ``all_invalid``.
    """

    def __init__(
        self,
        *,
        searchable: bool = True,
        compares_groups: bool = False,
        first: int = 5,
        weight: float = 0.3,
        patience: int = 3,
    ) -> None:
        self.searchable, self.compares_groups = searchable, compares_groups
        self.first, self.weight, self.patience = first, weight, patience
        self.seen = 0
        """Steps with a sound episode."""
        self.start: dict[str, float] = {}
        self.average: dict[str, float] = {}
        self.without_signal = 0
        """Steps since the last one in which something could be learnt: a group differed, where only
        that teaches, and the gradient was not 0."""
        self.signals = 0
        """Steps in which something could be learnt."""
        self.all_invalid = 0
        """Steps since the last one with a legal action."""
        self.warned: list[str] = []
        self.latest: list[str] = []
        """Names of the warnings that the last step gave."""

    def update(self, metrics: Mapping[str, float]) -> None:
        """Take in a step's metrics and warn of what has collapsed."""
        self.latest = []
        self._count_signal(metrics)
        if self.without_signal >= self.patience:
            self._warn("no_signal", self._no_signal())
        if self.all_invalid >= self.patience:
            self._warn("all_invalid", self._only_invalid())
        if any(math.isnan(metrics.get(name, math.nan)) for name in TRACKED):
            return  # no sound episode
        self.seen += 1
        for name in TRACKED:
            new = metrics[name]
            if self.seen <= self.first:
                self.start[name] = self.start.get(name, 0.0) + new / self.first
            before = self.average.get(name, new)
            self.average[name] = (1 - self.weight) * before + self.weight * new
        if self.seen <= self.first:
            return
        for name, text in self._collapses().items():
            self._warn(name, text)

    def finish(self) -> list[str]:
        """Warn at the end of a training in which nothing could be learnt or no turn was legal; the
        names of warnings given now."""
        self.latest = []
        if self.without_signal and not self.signals:
            self._warn("no_signal", self._no_signal())
        if self.all_invalid and self.all_invalid == self.without_signal + self.signals:
            self._warn("all_invalid", self._only_invalid())
        return self.latest

    def _count_signal(self, metrics: Mapping[str, float]) -> None:
        if math.isnan(metrics.get("reward", math.nan)):
            return  # no sound episode: nothing is known
        equal = self.compares_groups and metrics.get("frac_reward_zero_std", 0.0) >= 1
        if equal or metrics.get("grad_norm", 1.0) == 0:
            self.without_signal += 1
        else:
            self.signals += 1
            self.without_signal = 0
        self.all_invalid = self.all_invalid + 1 if metrics.get("invalid") == 1 else 0

    def _no_signal(self) -> str:
        return (
            f"in {self.without_signal} step(s) no group had two different rewards, or every "
            "gradient was 0, so nothing was learnt. Easier tasks, a warm start ('searchgym "
            "warmstart'), a graded reward such as f1, larger groups or a higher load.temperature "
            "give a signal"
        )

    def _only_invalid(self) -> str:
        return (
            f"in {self.all_invalid} step(s) not one turn was a legal action. Warm-start the model "
            "('searchgym warmstart', 'searchgym train smollm'), allow more tokens a turn "
            "(sampling.max_tokens), or take another dialect"
        )

    def _warn(self, name: str, text: str) -> None:
        if name not in self.warned:
            self.warned.append(name)
            self.latest.append(name)
            warnings.warn(f"{name}: {text}", CollapseWarning, stacklevel=4)

    def _collapses(self) -> dict[str, str]:
        """Name → description of every collapse that the averages show."""
        start, now = self.start, self.average
        collapses: dict[str, str] = {}
        if self.searchable and start["searches"] >= 0.5 and now["searches"] < 0.2:
            collapses["no_search"] = (
                f"{now['searches']:.2f} searches per episode, {start['searches']:.2f} at first: "
                "the policy answers from memory. Are tasks answerable without searching?"
            )
        if start["entropy"] > 0.05 and now["entropy"] < 0.05 * start["entropy"]:
            collapses["entropy_collapse"] = (
                f"{now['entropy']:.4f} nats per token, {start['entropy']:.4f} at first: hardly "
                "anything new is tried. Lower lr, add an entropy loss, or raise clip_high"
            )
        if now["reward"] - start["reward"] > 0.1 and now["em"] - start["em"] < 0.02:
            collapses["format_hacking"] = (
                f"reward rose from {start['reward']:.2f} to {now['reward']:.2f}, exact match went "
                f"from {start['em']:.2f} to {now['em']:.2f}: what is rewarded is not the answer"
            )
        longer = now["completion_length"] > 3 * start["completion_length"]
        cut = now["truncated"] > 0.5 and now["truncated"] > 2 * start["truncated"]
        if longer or cut:
            collapses["length_blow_up"] = (
                f"{now['completion_length']:.0f} tokens per episode "
                f"({start['completion_length']:.0f} at first), {now['truncated']:.0%} truncated. "
                "Penalise length, or divide by tokens"
            )
        return collapses

    def state_dict(self) -> dict[str, Any]:
        """State as JSON values."""
        return {
            "seen": self.seen, "start": self.start, "average": self.average,
            "without_signal": self.without_signal, "signals": self.signals,
            "all_invalid": self.all_invalid, "warned": self.warned,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.seen, self.warned = int(state["seen"]), list(state["warned"])
        self.start, self.average = dict(state["start"]), dict(state["average"])
        self.without_signal, self.signals = int(state["without_signal"]), int(state["signals"])
        self.all_invalid = int(state.get("all_invalid", 0))


EXACT = 1e-4
"""Tolerance in float32, in nats: kernels differ by less."""
ROUNDED = 0.5
"""Tolerance in half precision, in nats: single unlikely tokens differ by this much."""


def tolerance(dtype: torch.dtype, generator: Any = None) -> float:
    """Largest difference that rounding explains, in nats: by the coarser precision of the trainer's
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
        EngineError: a token differs by more than ``limit``.
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
    if not largest <= limit:
        raise EngineError(
            f"{type(generator).__name__} and the trainer disagree on {type(model).__name__} by up "
            f"to {largest:.2g} nats per token (mean {mean:.2g}, {len(gap)} "
            f"tokens; allowed {limit:g}): it does not compute this architecture alike, does not "
            "divide logits by the model's temperature, or did not take over the weights. Generate "
            "with a TransformersGenerator, or, if this is rounding, allow it: "
            "TrainConfig(agreement=…)"
        )
    return {"sampling_logp_difference/mean": mean, "sampling_logp_difference/max": largest}


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
