"""The critic of PPO: one number a token, fitted by a clipped squared error."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...policies.trainable import TrainableLM
from ..losses.value import value_loss
from ..slots.batch import Batch
from .base import ValueModel


class Critic(ValueModel):
    """A scalar head, which starts at 0; the default of every recipe with a critic.

    Args:
        clip: Distance from its old value beyond which a value has no gradient.
        options: Of :class:`~searchgym.rl.critics.base.ValueModel`.
    """

    registered = "scalar"

    def __init__(self, lm: TrainableLM, *, clip: float = 0.5, **options: Any) -> None:
        super().__init__(lm, **options)
        self.clip = clip

    def read(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]

    def loss(
        self, outputs: Tensor, batch: Batch, mask: Tensor, tokens: float
    ) -> tuple[Tensor, dict[str, float]]:
        return value_loss(
            self.read(outputs), batch.need("returns"), batch.need("value"), mask,
            clip=self.clip, tokens=tokens,
        )  # fmt: skip
