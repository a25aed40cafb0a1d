"""Another estimator's advantages within each role: no role is in another's baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch

from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from ..slots.records import POLICY
from .base import Coef, Over


class ByRole(Over):
    """``base``, where the policy's members are compared with each other, and those of another role
    with those of the same role and sub-group alone (``Played.siblings``): CoSearch's rankings of
    similar queries (arXiv 2604.17555). With the policy alone this is ``base``.
    """

    registered = "by_role"
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo") -> None:
        super().__init__(base)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        part = replace(batch, group=role_groups(batch))
        made: Estimate = self.base.estimate(part, coef)
        batch.returns, batch.value_mask = part.returns, part.value_mask
        return made


def role_groups(batch: Batch) -> torch.Tensor:
    """(N,) numbers of groups in which no two roles are, nor two sub-groups of another role."""
    siblings = batch.group if batch.siblings is None else batch.siblings
    numbers: dict[tuple[int, str, int], int] = {}
    return torch.tensor(
        [
            numbers.setdefault((g, m.role, -1 if m.role == POLICY else s), len(numbers))
            for g, m, s in zip(batch.group.tolist(), batch.members, siblings.tolist(), strict=True)
        ]
    )
