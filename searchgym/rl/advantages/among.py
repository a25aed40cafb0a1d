"""Another estimator's advantages of some of the members, as if there were no others: of the
policy's, an expert's or replayed ones, or of those of one role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..slots.batch import Batch, Estimate, Kind, checked_kinds
from .base import Coef, Over


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
