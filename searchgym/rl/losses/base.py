"""Base of the losses, and a loss on some of the members alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from ..ops.tokens import Aggregate, Counts, aggregate_tokens
from ..slots.batch import Batch, Kind, Mean, Output, Totals, checked_kinds
from ..slots.protocols import Loss, Reduction, Result, RunFacts, make

Coef = Mapping[str, float]
"""Coefficients of a step, by name."""
ON_POLICY = (Reduction({}, {"use": "reinforce", "aggregate": "token-mean"}, "on-policy"),)
"""The claim that a loss has REINFORCE's gradient where old and new policy are equal."""


def check_clip(low: float, high: float) -> None:
    """Raise ``ValueError`` for a clip range that is none."""
    if not 0 <= low <= 1 or not 0 <= high < math.inf:
        raise ValueError(f"0 ≤ clip_low ≤ 1 and clip_high ≥ 0, got {low}, {high}")


def check_positive(**options: float) -> None:
    """Raise ``ValueError`` naming the first option that is not positive and finite."""
    for name, value in options.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}")


class WeightedLoss(Loss):
    """A loss with a ``weight``, an aggregation, and counts that make parts add up.

    Args:
        weight: Weight of the loss in the sum; ``coef[name]`` replaces it.
        aggregate: One of ``ops.tokens.Aggregate``; default: the method's own.
        norm: For "seq-mean-token-sum-norm": tokens by which each trajectory's sum is divided.
    """

    default: ClassVar[Aggregate] = "token-mean"
    off_policy: ClassVar[tuple[str, ...]] = ()
    """Options that change nothing where every ratio is 1, as at the first update of a step."""

    def __init__(
        self,
        weight: float = 1.0,
        aggregate: Aggregate | None = None,
        norm: float | None = None,
    ) -> None:
        self.weight = float(weight)
        if not math.isfinite(self.weight):
            raise ValueError(f"weight must be a finite number, got {weight}")
        self.aggregate: Aggregate = aggregate or self.default
        if self.aggregate not in get_args(Aggregate):
            raise ValueError(f"aggregate is one of {', '.join(get_args(Aggregate))}")
        if (norm is None) == (self.aggregate == "seq-mean-token-sum-norm"):
            raise ValueError("norm (tokens) and aggregate='seq-mean-token-sum-norm' go together")
        self.norm = norm

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """The options of ``off_policy``, where each step makes one update. The ratio is to the
        weights at its start, also where the data are older."""
        if run.updates > 1:
            return {}
        reason = (
            "each step makes one update, at which every ratio is 1; train.minibatches or "
            "train.epochs above 1 makes several"
        )
        return dict.fromkeys(self.off_policy, reason)

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        """(N, T) the loss of each token at log-probabilities ``logp`` (N, T), with gradient, and
        statistics: means over the trained tokens."""
        raise NotImplementedError

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        values, stats = self.by_token(output.logp, batch)
        return aggregate_tokens(values, batch.mask, self.aggregate, **self.counts(totals)), stats

    def counts(self, totals: Totals) -> Counts:
        """Divisors of sums: never 0."""
        sequences = max(totals.sequences, 1.0)
        made: Counts = {"tokens": max(totals.tokens, 1.0), "sequences": sequences}
        if self.norm is not None:
            made["norm"] = self.norm * sequences
        return made


Ratio = Literal["old", "sampled"]


class LossAmong(Loss):
    """Another loss, on members of some kinds: reinforcement learning on those that the policy
    played and imitation of an expert's in one batch. Means are over these members' tokens.

    Args:
        members: One or several of ``"played"``, ``"expert"`` and ``"replayed"``.
        loss: The loss, as in a recipe.
        name: Name of its coefficient and metrics; default: its own.
        ratio: ``"sampled"``: what the loss takes for the policy at the step's start is the one that
            drew the tokens, so that the ratio and the clip of members of earlier steps are to the
            weights of then (SPEAR).
        role: Of these members' tokens alone those that a role wrote: the ranker's rows have a loss
            of their own.
    """

    registered = "among"

    def __init__(
        self,
        members: Kind | Sequence[Kind] = "expert",
        loss: Any = "sft",
        name: str | None = None,
        ratio: Ratio = "old",
        role: str | None = None,
    ) -> None:
        if ratio not in get_args(Ratio):
            raise ValueError(f"ratio is 'old' or 'sampled', got {ratio!r}")
        self.members, self.role = checked_kinds(members), role
        self.ratio = ratio
        self.loss: Loss = make("loss", loss)
        self._given = frozenset(loss) if isinstance(loss, Mapping) else frozenset()
        self.name = name or self.loss.name
        self.weight = self.loss.weight
        needs = set(self.loss.requires) | ({"sampled_logp"} if ratio == "sampled" else set())
        if "expert" not in self.members:
            needs -= {"sampled_logp"}  # whoever plays or has played has them
        self.requires = frozenset(needs)
        self.reads = self.loss.reads
        self.whole_groups, self.scales_clip = self.loss.whole_groups, self.loss.scales_clip
        self.prepares_with_logp = self.loss.prepares_with_logp

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """Options of the loss that change nothing, unless ratios are to older weights."""
        if self.ratio == "sampled":
            return {}
        vain = {n: why for n, why in self.loss.idle(run).items() if n in self._given}
        return {"loss": f"{', '.join(vain)}: {next(iter(vain.values()))}"} if vain else {}

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """Note how many tokens and trajectories the update has of these kinds."""
        part = self._part(batch)
        totals = part.totals
        notes = {self._key(n): torch.full((len(batch),), v) for n, v in totals._asdict().items()}
        return {**notes, **self.loss.prepare(part, output, coef)}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        part = self._part(batch)
        counted = Totals(*(float(batch.note(self._key(n))[0]) for n in Totals._fields))
        loss, stats = self.loss(output, part, counted, coef)
        tokens = part.totals.tokens
        means = {
            name: value if isinstance(value, Mean) else Mean(value * tokens, tokens)
            for name, value in stats.items()
        }
        return loss, means

    def _part(self, batch: Batch) -> Batch:
        mask = batch.mask & batch.among(self.members)[:, None]
        if self.role is not None:
            mask = mask & batch.tokens_of(self.role)
        old = batch.sampled_logp if self.ratio == "sampled" else batch.old_logp
        return replace(batch, mask=mask, old_logp=old)

    def _key(self, name: str) -> str:
        role = "" if self.role is None else f"{self.role}_"
        return f"{'+'.join(self.members)}_{role}{name}"
