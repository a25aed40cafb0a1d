"""Bases of the advantage estimators, and one that keeps another to some of the members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..slots.batch import Batch, Estimate, Kind, checked_kinds
from ..slots.protocols import AdvantageEstimator, make

Coef = Mapping[str, float]
"""Coefficients of a step, by name."""


class Relative(AdvantageEstimator):
    """An estimator that compares the members of a group: equal rewards get exactly 0."""

    relative = True


class Over(AdvantageEstimator):
    """Estimator on top of another, ``base``, given as in a recipe."""

    remembers: ClassVar[tuple[str, ...]] = ("base",)
    needs: frozenset[str] = frozenset()
    """Further inputs it reads."""

    def __init__(self, base: Any = "grpo") -> None:
        self.base: AdvantageEstimator = make("advantage", base)
        self.requires = frozenset(self.needs | self.base.requires)
        self.provides = frozenset(type(self).provides | self.base.provides)
        self.reads = type(self).reads | self.base.reads

    def tensors(self) -> Mapping[str, Tensor]:
        return self.base.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            self.base.load_tensors(tensors)


class DrawingOver(Over):
    """Estimator that draws at random, from ``seed`` and the number of the step."""

    remembers = ("steps",)

    def __init__(self, base: Any = "grpo", seed: int = 0) -> None:
        super().__init__(base)
        self.seed, self.steps = seed, 0


class Among(Over):
    """``base``, estimated on members of some kinds: what an expert earned is in no baseline of the
    policy's own members. All others get 0, and are trained on by the losses that read none.

    Args:
        members: One or several of ``"played"``, ``"expert"`` and ``"replayed"``.
        role: Of these members alone those of a role; ``by_role`` estimates within each.
    """

    registered = "among"

    def __init__(
        self,
        base: Any = "grpo",
        members: Kind | Sequence[Kind] = "played",
        role: str | None = None,
    ) -> None:
        super().__init__(base)
        self.members, self.role = checked_kinds(members), role

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        chosen = batch.among(self.members)
        if self.role is not None:
            chosen = chosen & batch.of_role(self.role)
        places = torch.nonzero(chosen)[:, 0]
        if not len(places):
            return Estimate(torch.zeros(len(batch)))
        made = self.base.estimate(batch.take(places.tolist()), coef)

        def back(values: Any, other: float) -> Any:
            """Values of the part at their places in the batch, ``other`` elsewhere."""
            if values is None:
                return None
            whole = torch.full((len(batch), *values.shape[1:]), other).to(values.dtype)
            whole[places] = values
            return whole

        return Estimate(
            back(made.adv, 0), back(made.clip_scale, 1), back(made.mask, 1), back(made.returns, 0),
            back(made.value_mask, 0), {name: back(value, 0) for name, value in made.notes.items()},
        )  # fmt: skip
